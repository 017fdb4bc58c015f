"""What both Python agents share: the command line, the bound socket, the READY line.

Uses nothing of an SDK, so that either virtual environment can import it.
"""

import argparse
import asyncio
import logging
import os
import socket

import uvicorn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument('--port', type=int, default=0, help='0 takes any free port')
    parser.add_argument('--card-url', help='the URL that the card shows; default: where the agent listens')
    parser.add_argument('--name', default='agent')
    parser.add_argument('--replica', default='r1', help='stands in every answer')
    parser.add_argument('--compat', action='store_true', help='serve A2A 0.3 beside 1.0, if the SDK can')
    binding = parser.add_mutually_exclusive_group()
    binding.add_argument('--rest', action='store_true', help='serve HTTP+JSON instead of JSON-RPC, if the SDK can')
    binding.add_argument('--grpc', action='store_true', help='serve gRPC instead of JSON-RPC, on a port of its own, if the SDK can')
    return parser.parse_args()


def listen(port: int) -> socket.socket:
    """Binds before the card is built, because the card names the port."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(('127.0.0.1', port))
    return bound


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, port: int, before) -> None:
        super().__init__(config)
        self._port = port
        self._before = before

    async def startup(self, sockets=None) -> None:
        if self._before:
            await self._before()
        await super().startup(sockets)
        print(f'READY {self._port}', flush=True)


def serve(app, bound: socket.socket, before=None) -> None:
    """`before` is awaited before anybody is served."""
    if not os.environ.get('AGENT_LOG'):
        # "boom" makes the SDKs print a stack trace for each call, which would hide what matters.
        logging.disable(logging.CRITICAL)
    config = uvicorn.Config(app, log_level='warning', lifespan='off', timeout_graceful_shutdown=1)
    _Server(config, bound.getsockname()[1], before).run(sockets=[bound])


# Nobody else holds them.
_started = []


async def serve_grpc(add, servicer) -> int:
    """For as long as the process lives; gives the port."""
    import grpc.aio

    server = grpc.aio.server()
    add(servicer, server)
    port = server.add_insecure_port('127.0.0.1:0')
    await server.start()
    _started.append(server)
    return port


async def until_there(path: str) -> None:
    """Raises when nobody makes the file within 15 s."""
    for _ in range(750):
        if os.path.exists(path):
            return
        await asyncio.sleep(0.02)
    raise TimeoutError('nobody opened the gate')


def skills() -> list[dict]:
    """The skills by the first word of the text; every agent of the suite has the same ones."""
    texts = {
        'echo': 'echo TEXT: a finished task with TEXT as artifact',
        'message': 'message TEXT: a message, no task',
        'stream': 'stream N: N artifact chunks',
        'slow': 'slow N [MS]: works for N times 100 (or MS) ms',
        'gate': 'gate PATH: says that it waits, and finishes once the file PATH is there',
        'ask': 'ask: asks back; the next message finishes the task',
        'fail': 'fail: a failed task',
        'boom': 'boom: raises',
    }
    return [
        {'id': word, 'name': word, 'description': text, 'tags': ['interop'], 'examples': [word]}
        for word, text in texts.items()
    ]
