#!/bin/sh
# Stands in for nvidia-cuda-mps-control: keeps a list of what it was asked in $MPS_CALLS.
if [ "$1" = -d ]; then
  echo "-d $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" >> "$MPS_CALLS"
  if [ -n "$MPS_REFUSES" ]; then echo "$MPS_REFUSES" >&2; exit 1; fi
  : > "$CUDA_MPS_PIPE_DIRECTORY/control"; : > "$CUDA_MPS_PIPE_DIRECTORY/alive"
  exit 0
fi
read -r asked
echo "$asked" >> "$MPS_CALLS"
[ -e "$CUDA_MPS_PIPE_DIRECTORY/alive" ] || exit 1
if [ "$asked" = quit ]; then rm "$CUDA_MPS_PIPE_DIRECTORY/control" "$CUDA_MPS_PIPE_DIRECTORY/alive"; fi
exit 0
