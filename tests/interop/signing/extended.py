"""Fetches the extended card over gRPC with the Python SDK that it runs in (0.3 or 1.x), and prints it as JSON.

    extended.py TARGET CA TOKEN VERSION
"""

import json
import sys
from pathlib import Path

import grpc


SECONDS = 30


def channel(target: str, ca: str) -> grpc.Channel:
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(Path(ca).read_bytes()))


def main() -> None:
    target, ca, token, version = sys.argv[1:]
    metadata = (('authorization', f'Bearer {token}'), ('a2a-version', version))
    with channel(target, ca) as open_channel:
        try:
            from a2a.types import a2a_pb2, a2a_pb2_grpc
            from google.protobuf.json_format import MessageToDict
        except ImportError:
            from a2a.grpc import a2a_pb2, a2a_pb2_grpc
            from a2a.utils import proto_utils

            stub = a2a_pb2_grpc.A2AServiceStub(open_channel)
            card = stub.GetAgentCard(a2a_pb2.GetAgentCardRequest(), metadata=metadata, timeout=SECONDS)
            card = proto_utils.FromProto.agent_card(card).model_dump(mode='json', by_alias=True, exclude_none=True)
        else:
            stub = a2a_pb2_grpc.A2AServiceStub(open_channel)
            request = a2a_pb2.GetExtendedAgentCardRequest()
            card = MessageToDict(stub.GetExtendedAgentCard(request, metadata=metadata, timeout=SECONDS))
    print(json.dumps(card))


main()
