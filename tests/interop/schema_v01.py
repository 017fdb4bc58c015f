"""The wire form of A2A 0.1 (its JSON Schema), checked to the letter: what has a member too many, too few or of another type is wrong.

Shared by the scripted client, which reads answers with it, and the scripted agent, which reads requests with it. Uses
nothing of an SDK. Clients of 0.1 write explicit nulls for what they leave out, agents never do.
"""


class WrongForm(AssertionError):
    """What came is none of 0.1; the text says where and why."""


# A member with `?` may be missing; a list holds as many of its one element as it likes; a tuple is any of its elements.
TEXTS = [str]
STATES = {'submitted', 'working', 'input-required', 'completed', 'canceled', 'failed', 'unknown'}
PART = {
    'text': {'type': str, 'text': str, 'metadata?': dict},
    'data': {'type': str, 'data': dict, 'metadata?': dict},
    'file': {'type': str, 'file': {'name?': str, 'mimeType?': str, 'bytes?': str, 'uri?': str}, 'metadata?': dict},
}


def _part(value: object, where: str, nulls: bool) -> None:
    _is(isinstance(value, dict) and value.get('type') in PART, where, 'a part', value)
    fits(value, PART[value['type']], where, nulls)
    if value['type'] == 'file':
        file = {name for name, content in value['file'].items() if content is not None}
        _is(len(file & {'bytes', 'uri'}) == 1, where, 'a file of either bytes or a URI', value)


def _role(value: object, where: str, _: bool) -> None:
    _is(value in ('user', 'agent'), where, 'a role', value)


def _state(value: object, where: str, _: bool) -> None:
    _is(isinstance(value, str) and value in STATES, where, 'a state', value)


def _any(*_: object) -> None:
    pass


MESSAGE = {'role': _role, 'parts': [_part], 'metadata?': dict}
STATUS = {'state': _state, 'message?': MESSAGE, 'timestamp?': str}
ARTIFACT = {
    'name?': str,
    'description?': str,
    'parts': [_part],
    'metadata?': dict,
    'index': int,
    'append?': bool,
    'lastChunk?': bool,
}
TASK = {'id': str, 'sessionId?': str, 'status': STATUS, 'artifacts?': [ARTIFACT], 'history?': [MESSAGE], 'metadata?': dict}
STATUS_EVENT = {'id': str, 'status': STATUS, 'final': bool, 'metadata?': dict}
ARTIFACT_EVENT = {'id': str, 'artifact': ARTIFACT, 'metadata?': dict}
PUSH = {'url': str, 'token?': str, 'authentication?': {'schemes': TEXTS, 'credentials?': str}}
TASK_PUSH = {'id': str, 'pushNotificationConfig': PUSH}
ERROR = {'code': int, 'message': str, 'data?': _any}
SKILL = {
    'id': str,
    'name': str,
    'description?': str,
    'tags?': TEXTS,
    'examples?': TEXTS,
    'inputModes?': TEXTS,
    'outputModes?': TEXTS,
}
CARD = {
    'name': str,
    'description?': str,
    'url': str,
    'provider?': {'organization': str, 'url?': str},
    'version': str,
    'documentationUrl?': str,
    'capabilities': {'streaming?': bool, 'pushNotifications?': bool, 'stateTransitionHistory?': bool},
    'authentication?': {'schemes': TEXTS, 'credentials?': str},
    'defaultInputModes?': TEXTS,
    'defaultOutputModes?': TEXTS,
    'skills': [SKILL],
}

_ID = {'id': str, 'metadata?': dict}
_QUERY = {**_ID, 'historyLength?': int}
# `acceptedOutputModes` is no member of the schema, but of the reference implementation.
_SEND = {
    **_QUERY,
    'sessionId?': str,
    'message': MESSAGE,
    'acceptedOutputModes?': TEXTS,
    'pushNotification?': PUSH,
}
PARAMS = {
    'tasks/send': _SEND,
    'tasks/sendSubscribe': _SEND,
    'tasks/get': _QUERY,
    'tasks/cancel': _ID,
    'tasks/resubscribe': _QUERY,
    'tasks/pushNotification/set': TASK_PUSH,
    'tasks/pushNotification/get': _ID,
}
RESULT = {
    'tasks/send': TASK,
    'tasks/sendSubscribe': (STATUS_EVENT, ARTIFACT_EVENT),
    'tasks/get': TASK,
    'tasks/cancel': TASK,
    'tasks/resubscribe': (STATUS_EVENT, ARTIFACT_EVENT),
    'tasks/pushNotification/set': TASK_PUSH,
    'tasks/pushNotification/get': TASK_PUSH,
}


def _is(holds: bool, where: str, what: str, value: object) -> None:
    if not holds:
        raise WrongForm(f'{where} is not {what} of 0.1: {str(value)[:200]}')


def fits(value: object, form: object, where: str, nulls: bool = False) -> None:
    """Raises unless the value has that form; with `nulls` members that may be missing may be null."""
    match form:
        case dict():
            _is(isinstance(value, dict), where, 'an object', value)
            members = {name.removesuffix('?'): inner for name, inner in form.items()}
            for name in form:
                _is(name.endswith('?') or name in value, where, f'whole ({name} is missing)', value)
            for name, content in value.items():
                _is(name in members, where, f'an object without {name}', value)
                if not (nulls and content is None and f'{name}?' in form):
                    fits(content, members[name], f'{where}.{name}', nulls)
        case [inner] if isinstance(form, list):
            _is(isinstance(value, list), where, 'a list', value)
            for at, content in enumerate(value):
                fits(content, inner, f'{where}[{at}]', nulls)
        case tuple():
            told = []
            for inner in form:
                try:
                    return fits(value, inner, where, nulls)
                except WrongForm as reason:
                    told.append(str(reason))
            raise WrongForm(' and '.join(told))
        case type():
            # A boolean of Python is a number too.
            _is(type(value) is form, where, f'of type {form.__name__}', value)
        case _:
            form(value, where, nulls)
