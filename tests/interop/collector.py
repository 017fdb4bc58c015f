#!/usr/bin/env python3
"""A collector of logs: reads what it is sent by the published schema of OTLP, and nothing that does not keep to it.

    collector.py PORT FILE

Each record's body becomes a line of FILE. A request that is none is answered with 400 and told of on standard error.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest


def records(body: bytes):
    request = json_format.Parse(body, ExportLogsServiceRequest())
    for resource in request.resource_logs:
        names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
        if names.get('service.name') != 'a2a-gateway':
            raise ValueError(f'the resource is {names}')
        for scope in resource.scope_logs:
            yield from scope.log_records


class Collector(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers['content-length']))
        try:
            if self.path != '/v1/logs':
                raise ValueError(self.path)
            lines = []
            for record in records(body):
                if not (record.time_unix_nano and record.severity_number and record.event_name and record.attributes):
                    raise ValueError(f'the record lacks something: {record}')
                lines.append(record.body.string_value + '\n')
        except (ValueError, json_format.ParseError) as error:
            print(f'no request of OTLP: {error}', file=sys.stderr, flush=True)
            self.send_error(400)
            return
        with open(sys.argv[2], 'a', encoding='ascii') as file:
            file.writelines(lines)
        self.send_response(200)
        self.send_header('content-type', 'application/json')
        self.send_header('content-length', '2')
        self.end_headers()
        self.wfile.write(b'{}')

    def log_message(self, *_: object) -> None:
        pass


if __name__ == '__main__':
    server = HTTPServer(('127.0.0.1', int(sys.argv[1])), Collector)
    print('ready', flush=True)
    server.serve_forever()
