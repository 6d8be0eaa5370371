"""The online ranking service: HTTP on Starlette and uvicorn, in front of `deep_interest.serving.ranker`."""
