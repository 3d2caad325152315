"""clients/python/examples/train_in_place.py for several ranks on one GPU, each a host of its own to NCCL: nccl_train.py STEPS SECONDS

With SECONDS the example makes a pause behind each step.
"""

import os
import pathlib
import sys
import time

import torch.distributed  # the slow import; who stands by makes it

CLIENT = pathlib.Path(__file__).resolve().parents[2] / "clients" / "python"
sys.path[:0] = [str(CLIENT), str(CLIENT / "examples")]
sys.dont_write_bytecode = True

import pawl
import train_in_place

assert torch.distributed.is_nccl_available()
# NCCL refuses two ranks of one host on one GPU.
os.environ.update(NCCL_HOSTID=f"slot-{os.environ.get('PAWL_SLOT', '0')}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
applied = pawl.Gang.applied


def slowly(gang, step):
    time.sleep(float(sys.argv[2]))
    applied(gang, step)


pawl.Gang.applied = slowly
train_in_place.main()
