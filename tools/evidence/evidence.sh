#!/usr/bin/env bash
# Everything behind docs/reproduction.md, docs/lower_load.md and docs/claim.md: some fifteen hours of one core. Stop it whenever you like;
# started again it goes on where it was. The data of `expertload lab data list` must be on this machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

sweep() { expertload lab sweep "$@" --jobs 2; }

sweep retinamnist-cpu --seeds 0-9 --tuning-seeds 0-1
sweep retinamnist-focal-cpu --losses focal --seeds 0-9
sweep dermamnist-cpu --seeds 0-2
sweep dermamnist-focal-cpu --losses focal --seeds 0-2
sweep cifar100-cpu --losses ce,ce+aucoc --seeds 0-1

for run in runs/cifar100-cpu/ce-seed* runs/cifar100-cpu/ce+aucoc-w0.03-seed*; do
  expertload lab ood "$run" --against cifar100-c:gaussian_noise,cifar100-c:all,fashion-mnist \
    --max-images 2500
done

sweep dermamnist-batch-size-32-cpu --losses ce,ce+aucoc --seeds 0-1
sweep dermamnist-batch-size-64-cpu --losses ce,ce+aucoc --seeds 0-1
sweep retinamnist-weights-cpu --seeds 0-2 --tuning-seeds 0-2
sweep retinamnist-reflection-cpu --seeds 0-4 --tuning-seeds 0-1
sweep retinamnist-gradient-cpu --seeds 0-9 --tuning-seeds 0-1
sweep retinamnist-warm-up-cpu --seeds 0-4 --tuning-seeds 0-1
sweep retinamnist-confirmation-cpu --seeds 10-29
sweep dermamnist-reflection-cpu --losses ce+aucoc --seeds 0-2
sweep dermamnist-gradient-cpu --losses ce+aucoc --seeds 0-2
sweep dermamnist-resnet20-cpu --losses ce,ce+aucoc --seeds 0-2
sweep cifar100-lt-100-cpu --losses ce,ce+aucoc --seeds 0-4

for data in retinamnist dermamnist fashion-mnist cifar100; do
  sweep "ladder-$data-plain" --seeds 0-9 --out "runs-ladder/ladder-$data-plain"
  sweep "ladder-$data-plain-unclipped" --seeds 0-9 --out "runs-claim/ladder-$data-plain-unclipped"
  sweep "ladder-$data" --seeds 0-9,100-109 --out "runs-ladder/ladder-$data"
done

sweep claim-cifar100 --losses ce --seeds 0,10-33 --out runs-claim/claim-cifar100
sweep claim-cifar100 --losses ce+aucoc --seeds 0,10-25 --tuning-seeds 0 --out runs-claim/claim-cifar100
sweep claim-cifar100 --losses focal --seeds 0 --tuning-seeds 0 --out runs-claim/claim-cifar100
sweep claim-cifar100 --losses torch.nn:CrossEntropyLoss --seeds 0,26-33 --tuning-seeds 0 --out runs-claim/claim-cifar100
sweep claim-cifar100 --losses gce --seeds 0,26-33 --tuning-seeds 0 --out runs-claim/claim-cifar100
sweep claim-cifar100-unclipped --losses ce,ce+aucoc,gce --seeds 0,10-17 --tuning-seeds 0 --out runs-claim/claim-cifar100-unclipped
sweep claim-cifar100-reflected --losses ce+aucoc --seeds 0,10-14 --tuning-seeds 0 --out runs-claim/claim-cifar100-reflected
sweep claim-cifar100-log-odds --losses ce+aucoc --seeds 0,10-25 --tuning-seeds 0 --out runs-claim/claim-cifar100-log-odds
sweep claim-cifar100-lt --losses ce,ce+aucoc --seeds 0,10-21 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt
sweep claim-cifar100-lt --losses gce --seeds 0,10-21 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt
sweep claim-cifar100-lt --losses torch.nn:CrossEntropyLoss --seeds 0,10-17 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt
sweep claim-cifar100-lt --losses focal --seeds 0 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt
sweep claim-cifar100-lt-reflected --losses ce+aucoc --seeds 0 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt-reflected
sweep claim-cifar100-lt-log-odds --losses ce+aucoc --seeds 0,10-21 --tuning-seeds 0 --out runs-claim/claim-cifar100-lt-log-odds
sweep claim-tiny-imagenet --losses ce,ce+aucoc,gce --seeds 0,10-17 --tuning-seeds 0 --out runs-claim/claim-tiny-imagenet
sweep claim-tiny-imagenet --losses focal,torch.nn:CrossEntropyLoss --seeds 0 --tuning-seeds 0 --out runs-claim/claim-tiny-imagenet
sweep claim-tiny-imagenet-reflected --losses ce+aucoc --seeds 0 --tuning-seeds 0 --out runs-claim/claim-tiny-imagenet-reflected
sweep claim-tiny-imagenet-log-odds --losses ce+aucoc --seeds 0,10-17 --tuning-seeds 0 --out runs-claim/claim-tiny-imagenet-log-odds
sweep claim-dermamnist --losses ce,ce+aucoc --seeds 0-1,10-25 --tuning-seeds 0-1 --out runs-claim/claim-dermamnist
sweep claim-dermamnist --losses focal,torch.nn:CrossEntropyLoss --seeds 0-1 --tuning-seeds 0-1 --out runs-claim/claim-dermamnist
sweep claim-dermamnist --losses gce --seeds 0-1,18-25 --tuning-seeds 0-1 --out runs-claim/claim-dermamnist
sweep claim-dermamnist-reflected --losses ce+aucoc --seeds 0-1,10-14 --tuning-seeds 0-1 --out runs-claim/claim-dermamnist-reflected
sweep claim-dermamnist-log-odds --losses ce+aucoc --seeds 0-1,10-25 --tuning-seeds 0-1 --out runs-claim/claim-dermamnist-log-odds
sweep claim-dermamnist-interpolating --losses ce,ce+aucoc --seeds 0,10-13 --tuning-seeds 0 --out runs-claim/claim-dermamnist-interpolating
sweep claim-dermamnist-interpolating --losses focal,torch.nn:CrossEntropyLoss --seeds 0 --tuning-seeds 0 --out runs-claim/claim-dermamnist-interpolating
sweep claim-dermamnist-interpolating-reflected --losses ce+aucoc --seeds 0,10-13 --tuning-seeds 0 --out runs-claim/claim-dermamnist-interpolating-reflected
sweep claim-dermamnist-interpolating-log-odds --losses ce+aucoc --seeds 0,10-13 --tuning-seeds 0 --out runs-claim/claim-dermamnist-interpolating-log-odds

python -m tools.evidence.settle runs-claim  # some five hours of one core

python -m tools.evidence ladder runs-ladder
python -m tools.evidence outliers runs-ladder
python -m tools.evidence claim runs-claim
python -m tools.evidence on-top runs-claim
python -m tools.evidence loop
python -m tools.evidence gather runs
python -m tools.evidence examine runs/retinamnist-cpu runs/dermamnist-cpu
python -m tools.evidence write  # tables and figures; `python -m tools.evidence cost` needs an idle machine
