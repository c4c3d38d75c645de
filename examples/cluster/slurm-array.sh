#!/usr/bin/env bash
# A batch over the tasks of a Slurm array: each takes one part of the same file, and writes a file of its own.
#
#   sbatch --array=0-15 examples/cluster/slurm-array.sh scripts.jsonl results 16
#   cat results/*.jsonl > results.jsonl
#
# The last argument is the number of parts. It stays the same when only some tasks are submitted again (--array=3,7), which go on
# where they ended: an array's own count would change with it. Each node needs `qwed-mcp` on PATH, and a sandbox: `srun qwed-mcp doctor`.
#SBATCH --job-name=qwed-verify
#SBATCH --cpus-per-task=8
#SBATCH --mem=12G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=qwed-verify-%A-%a.log
# A minute before the time is up: what runs is ended, and the file is one that can be gone on with.
#SBATCH --signal=B:TERM@60
set -euo pipefail

if [ $# -ne 3 ]; then
    echo "usage: sbatch --array=0-LAST slurm-array.sh SCRIPTS RESULTS PARTS" >&2
    exit 2
fi
scripts=$1 results=$2 parts=$3
output=$results/$SLURM_ARRAY_TASK_ID.jsonl
mkdir -p "$results"

# What a node could not run says nothing about the script. It is run again, where this is.
if [ -e "$output" ]; then
    sed --in-place --regexp-extended '/^\{"id":"([^"\\]|\\.)*","status":"infra_error",/d' "$output"
fi

export QWED_MCP_TRUSTED_CODE_EXECUTION=true
# In the place of the shell, so that Slurm's signals are for the program.
exec qwed-mcp run --batch "$scripts" --output "$output" --resume --shard "$SLURM_ARRAY_TASK_ID/$parts" \
    --workers "${SLURM_CPUS_PER_TASK:-1}" --progress none --summary "$results/$SLURM_ARRAY_TASK_ID.summary.json"
