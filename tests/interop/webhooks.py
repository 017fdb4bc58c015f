"""The webhooks of the clients: takes what is posted there, and judges it.

An agent posts by itself where the client speaks its generation, else the gateway does in its place. Either way it must be
in the generation that the client speaks, about its task, with its token, and at last say that the task is completed. Standard
library only.
"""

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import schema_v01
from suite import LOOPBACK

SECONDS = 15
# What 1.0 tells a webhook is one of these; 0.3 and 0.1 tell a task as it is, and 0.1 does not say that it is one.
EVENTS = ('task', 'message', 'statusUpdate', 'artifactUpdate')


@dataclass(frozen=True)
class Notification:
    token: str | None
    body: dict

    def generation(self) -> str:
        if self.body.get('kind') == 'task':
            return '0.3'
        if 'kind' not in self.body and {'id', 'status'} <= set(self.body):
            return '0.1'
        return '1.0' if len(self.body) == 1 and set(self.body) < set(EVENTS) else 'none'

    def _told(self) -> dict:
        return self.body if self.generation() in ('0.1', '0.3') else next(iter(self.body.values()), {})

    def task(self) -> str | None:
        told = self._told()
        return told.get('taskId') or told.get('id')

    def state(self) -> str | None:
        state = self._told().get('status', {}).get('state')
        return state and state.removeprefix('TASK_STATE_').lower()


class Webhooks:
    """Each client has a place of its own, and below it a webhook for each way to set one."""

    def __init__(self) -> None:
        self._heard: dict[str, list[Notification]] = {}
        self._news = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self) -> None:
                length = int(self.headers.get('Content-Length', 0))
                body = json.loads(self.rfile.read(length))
                outer._take(self.path, Notification(self.headers.get('X-A2A-Notification-Token'), body))
                self.send_response(200)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def place(self, client: str) -> str:
        return f'http://{LOOPBACK}:{self._server.server_port}/{quote(client, safe="")}'

    def _take(self, path: str, notification: Notification) -> None:
        with self._news:
            self._heard.setdefault(path, []).append(notification)
            self._news.notify_all()

    def _until_completed(self, path: str) -> list[Notification]:
        with self._news:
            heard = self._heard.setdefault(path, [])
            self._news.wait_for(lambda: heard and heard[-1].state() == 'completed', SECONDS)
            return list(heard)

    def judge(self, client: str, generation: str, made: dict[str, str]) -> str | None:
        """What is wrong with what was told; `made` are the tasks by the way in which their webhooks were set."""
        for way, task in made.items():
            told = self._until_completed(f'/{quote(client, safe="")}/{way}')
            for one in told:
                if (one.generation(), one.task(), one.token) != (generation, task, f'{way}-token'):
                    return f'{way}: {generation} of {task} was to be told, not {one}'
                if generation == '0.1' and (strange := _strange(one.body)):
                    return f'{way}: {strange}'
            if not told or told[-1].state() != 'completed':
                return f'{way}: the webhook never heard of the end, but {[one.state() for one in told]}'
        return None


def _strange(body: dict) -> str | None:
    """Why this is no task of 0.1 to the letter."""
    try:
        schema_v01.fits(body, schema_v01.TASK, 'the notification')
    except schema_v01.WrongForm as wrong:
        return str(wrong)
    return None
