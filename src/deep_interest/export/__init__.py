"""Export of trained models: the CTRs of many candidates for one user as an ONNX graph or a `torch.export` program.

The compiled kernels of `deep_interest.ops` work on jagged batches and cannot be traced. Here the forward pass for a
single history is written in plain torch, with the parameters of the trained model:

    inputs         names, types and shapes of the inputs, from the feature schema
    request        inputs -> vectors of the fields, the history and the candidates
    layers, attention, recurrent, search
                   the mechanisms that models share
    interests      (model, history, candidates) -> the user's representation for each candidate
    logits         (model, request) -> a logit per candidate
    program        the traced program, written as ONNX or as a torch.export archive
    artifact       the folder: program, schema and vocabularies
"""
