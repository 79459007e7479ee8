#!/usr/bin/env bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
# Runs a TensorFlow program as a Slurm job: a parameter server and a worker on each node, and the
# chief on the first one. Submit it in the checkout, which all nodes see in the same place:
#     sbatch --nodes=4 examples/cluster/slurm.sh python3 examples/cluster/train.py --steps 200
set -euo pipefail

FARWRITE_TOKEN=$(openssl rand -hex 32) # srun hands it to the tasks
# On every address: a node may resolve its own name to 127.0.1.1.
FARWRITE_LISTEN=${FARWRITE_LISTEN:-0.0.0.0:0}
export FARWRITE_TOKEN FARWRITE_LISTEN

hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd,)
as_task=(python3 examples/cluster/tf_config.py --hosts "$hosts")

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
srun --ntasks-per-node=2 --kill-on-bad-exit=1 "${as_task[@]}" slurm -- "$@" &
"${as_task[@]}" chief -- "$@" &
wait -n # for the chief, or for servers that fail; then Slurm ends what is left
