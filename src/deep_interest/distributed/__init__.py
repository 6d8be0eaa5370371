"""Training by several processes that ``torchrun`` starts, on one machine or several.

Each rank computes a part of every batch. The parameters of the network are replicated, and their gradients are summed. Embedding
tables are divided by rows: TorchRec plans the division and carries codes, rows and gradients between the ranks
(`exchange`); the rank that owns a row updates it, with the optimisers and penalties of `training`.

=================  =================================================================================
`environment`      what ``torchrun`` says about this process; without torch
`meeting`          a store of the processes of one attempt
`group`            the process group, sums and agreements over all ranks
`plan`             whether the tables fit into the memory of all ranks
`shards`           which rows a rank owns, and their initial values
`torchrec_parts`   what is used of TorchRec
`exchange`         rows for the codes of a batch, and the gradients of these rows
`optimizer`        sums of gradients; penalties by the occurrences in the batches of all ranks
`normalisation`    statistics of Dice and batch normalisation over the batches of all ranks
`fit`              a fit of `training.loop` on all ranks
`state`            saved states, one file for each rank, for any number of ranks
`runs`             training and prediction of an experiment
=================  =================================================================================
"""
