#!/bin/sh
# Retrain one model and score with the version in production: deploy/nightly.sh simulated.din
# Retraining without new days (10) or with a refused version (11) counts as success; other failures go to syslog.
# The script ends with the exit code of retraining if that failed, otherwise with that of scoring.
MODEL=${1:-simulated.din}
cd "$(dirname "$0")/.." || exit 1
.venv/bin/kedro run --pipelines="retrain.$MODEL"
code=$?
case $code in
    0 | 10 | 11) exec .venv/bin/kedro run --pipelines="score.$MODEL" ;;
    *) logger -p user.err "deep-interest: retraining of $MODEL ended with exit code $code"; exit $code ;;
esac
