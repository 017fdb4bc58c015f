//! Request lines.

use super::*;

const BOTH: &[Generation] = &[V0_3, V1_0];
const NEW: &[Generation] = &[V1_0];
const OLD: &[Generation] = &[V0_3];

type Ids<'a> = (Option<&'a str>, Option<&'a str>, Option<&'a str>);

fn check(
    line: &str,
    served: &[Generation],
    generation: Generation,
    operation: Operation,
    (tenant, task, config): Ids<'_>,
) {
    let (method, path) = line.split_once(' ').unwrap();
    let expected = Target {
        generation,
        operation,
        tenant: tenant.map(Box::from),
        task: task.map(Box::from),
        config: config.map(Box::from),
    };
    assert_eq!(read_target(method, path, served), Ok(expected), "{line} for {served:?}");
}

#[test]
fn the_extended_card_of_0_2_has_its_path_where_0_3_is_served() {
    let line = format!("GET {EXTENDED_CARD_OF_0_2}");
    for served in [BOTH, OLD, &[]] {
        check(&line, served, V0_3, Operation::ExtendedCard, (None, None, None));
        let posted = read_target("POST", EXTENDED_CARD_OF_0_2, served);
        assert_eq!(posted, Err(TargetError::Method { allowed: "GET" }));
    }
    for (path, served) in [
        (EXTENDED_CARD_OF_0_2, NEW),
        ("/v1/agent/authenticatedExtendedCard", BOTH),
        ("/agent/AuthenticatedExtendedCard", BOTH),
        ("/agent/authenticatedExtendedCard/", BOTH),
        ("/authenticatedExtendedCard", BOTH),
    ] {
        assert_eq!(read_target("GET", path, served), Err(TargetError::Unknown), "{path}");
    }
    let tenant = (Some("agent"), Some("t"), None);
    check("GET /agent/tasks/t", BOTH, V1_0, Operation::Get, tenant);
}

#[test]
fn paths_of_1_0_are_read() {
    use Operation::*;
    for (line, operation, task, config) in [
        ("POST {}/message:send", Send, None, None),
        ("POST {}/message:stream", Stream, None, None),
        ("POST {}/message%3Asend", Send, None, None),
        ("GET {}/tasks", List, None, None),
        ("GET {}/tasks/t-1", Get, Some("t-1"), None),
        ("POST {}/tasks/t-1:cancel", Cancel, Some("t-1"), None),
        ("POST {}/tasks/t-1%3acancel", Cancel, Some("t-1"), None),
        ("POST {}/tasks/t-1:subscribe", Subscribe, Some("t-1"), None),
        ("GET {}/tasks/t-1:subscribe", Subscribe, Some("t-1"), None),
        ("POST {}/tasks/t/pushNotificationConfigs", PushCreate, Some("t"), None),
        ("GET {}/tasks/t/pushNotificationConfigs", PushList, Some("t"), None),
        (
            "GET {}/tasks/t/pushNotificationConfigs/p",
            PushGet,
            Some("t"),
            Some("p"),
        ),
        (
            "DELETE {}/tasks/t/pushNotificationConfigs/p",
            PushDelete,
            Some("t"),
            Some("p"),
        ),
        ("GET {}/extendedAgentCard", ExtendedCard, None, None),
    ] {
        for served in [BOTH, NEW, OLD, &[]] {
            check(&line.replace("{}", ""), served, V1_0, operation, (None, task, config));
            check(
                &line.replace("{}", "/quay-7"),
                served,
                V1_0,
                operation,
                (Some("quay-7"), task, config),
            );
        }
        check(
            &line.replace("{}", "/v1"),
            NEW,
            V1_0,
            operation,
            (Some("v1"), task, config),
        );
    }
}

#[test]
fn paths_of_0_3_are_read() {
    use Operation::*;
    for (line, operation, task, config) in [
        ("POST /v1/message:send", Send, None, None),
        ("POST /v1/message%3astream", Stream, None, None),
        ("GET /v1/tasks", List, None, None),
        ("GET /v1/tasks/t-1", Get, Some("t-1"), None),
        ("POST /v1/tasks/t-1:cancel", Cancel, Some("t-1"), None),
        ("POST /v1/tasks/t-1:subscribe", Subscribe, Some("t-1"), None),
        ("GET /v1/tasks/t-1:subscribe", Subscribe, Some("t-1"), None),
        ("POST /v1/tasks/t/pushNotificationConfigs", PushCreate, Some("t"), None),
        ("POST /v1/task/t/pushNotificationConfigs", PushCreate, Some("t"), None),
        ("GET /v1/tasks/t/pushNotificationConfigs", PushList, Some("t"), None),
        (
            "GET /v1/tasks/t/pushNotificationConfigs/p",
            PushGet,
            Some("t"),
            Some("p"),
        ),
        (
            "DELETE /v1/tasks/t/pushNotificationConfigs/p",
            PushDelete,
            Some("t"),
            Some("p"),
        ),
        ("GET /v1/card", ExtendedCard, None, None),
    ] {
        for served in [BOTH, OLD, &[]] {
            check(line, served, V0_3, operation, (None, task, config));
        }
    }
}

#[test]
fn ids_are_decoded_and_end_at_the_last_colon() {
    use Operation::*;
    let check = |line, operation, ids| check(line, BOTH, V1_0, operation, ids);
    check("GET /tasks/a%20b%3F%25%C3%A9", Get, (None, Some("a b?%é"), None));
    check("GET /tasks/urn:x:1", Get, (None, Some("urn:x:1"), None));
    check("GET /tasks/a:", Get, (None, Some("a:"), None));
    check("POST /tasks/urn:x:1:cancel", Cancel, (None, Some("urn:x:1"), None));
    check("GET /tasks/a%2Fb", Get, (None, Some("a/b"), None));
    check("POST /tasks/a%2Fb:cancel", Cancel, (None, Some("a/b"), None));
    check("GET /tasks/a%252Fb", Get, (None, Some("a%2Fb"), None));
    check("GET /tasks/tasks", Get, (None, Some("tasks"), None));
    check("GET /quay%207/tasks/t", Get, (Some("quay 7"), Some("t"), None));
    check(
        "GET /tasks/a:cancel/pushNotificationConfigs",
        PushList,
        (None, Some("a:cancel"), None),
    );
    check(
        "GET /tasks/t/pushNotificationConfigs/p:cancel",
        PushGet,
        (None, Some("t"), Some("p:cancel")),
    );
    check(
        "GET /tasks/tasks/pushNotificationConfigs/pushNotificationConfigs",
        PushGet,
        (None, Some("tasks"), Some("pushNotificationConfigs")),
    );
}

#[test]
fn what_is_no_call_is_refused() {
    let unknown = |line: &str| refused(line, BOTH, TargetError::Unknown);
    unknown("GET /");
    unknown("POST /message");
    unknown("POST /messages:send");
    unknown("GET /tasks/");
    unknown("GET //tasks/t");
    unknown("GET /tasks//t");
    unknown("POST /tasks/:cancel");
    unknown("GET /tasks/t/pushNotificationConfigs/");
    unknown("GET /tasks/t/pushNotificationConfigs/p/q");
    unknown("GET /a/b/tasks/t");
    unknown("GET /v1");
    unknown("GET /v1/nothing");
    unknown("GET /v1/extendedAgentCard");
    unknown("GET /v1/quay/tasks");
    unknown("GET /card");
    unknown("GET /.well-known/agent-card.json");
    unknown("POST /task/t/pushNotificationConfigs");
    // Not every router minds the case.
    unknown("POST /Message:send");
    unknown("GET /Tasks/t");
    unknown("GET /tasks/t:Subscribe");
    unknown("GET /tasks/t/pushnotificationconfigs");
    // Names that no tenant has.
    for name in [
        "tasks",
        "TASKS",
        "message:send",
        "message%3Astream",
        "extendedAgentCard",
        ".well-known",
        "V1",
    ] {
        unknown(&format!("GET /{name}/tasks/t/pushNotificationConfigs"));
    }
    refused("GET /v1/v1/tasks", BOTH, TargetError::Unknown);
}

#[test]
fn another_method_is_told_which_are_allowed() {
    for (line, allowed) in [
        ("GET /message:send", "POST"),
        ("PUT /quay/message:stream", "POST"),
        ("POST /tasks", "GET"),
        ("HEAD /tasks/t", "GET"),
        ("get /tasks/t", "GET"),
        ("GET /tasks/t:cancel", "POST"),
        ("DELETE /tasks/t:subscribe", "GET, POST"),
        ("DELETE /v1/tasks/t/pushNotificationConfigs", "GET, POST"),
        ("GET /v1/task/t/pushNotificationConfigs", "POST"),
        ("POST /tasks/t/pushNotificationConfigs/p", "GET, DELETE"),
        ("POST /extendedAgentCard", "GET"),
        ("POST /v1/card", "GET"),
    ] {
        refused(line, BOTH, TargetError::Method { allowed });
    }
}

#[test]
fn what_servers_would_read_in_two_ways_is_refused() {
    let malformed = |line: &str| refused(line, BOTH, TargetError::Malformed);
    malformed("GET tasks/t");
    malformed("GET /tasks/%");
    malformed("GET /tasks/%4");
    malformed("GET /tasks/%zz");
    malformed("GET /tasks/%ff");
    malformed("GET /tasks/a b");
    malformed("GET /tasks/a\\b");
    malformed("GET /tasks/a?b");
    malformed("GET /tasks/a#b");
    malformed("GET /tasks/é");
    malformed("GET /tasks/..");
    malformed("GET /tasks/%2e%2E");
    malformed("GET /./tasks/t");
    malformed("GET /tasks/a/../t");
    // With its escapes undone first, each of these is another call.
    malformed("GET /tasks/t%2FpushNotificationConfigs");
    malformed("GET /tasks/t%2FpushNotificationConfigs%2Fp");
    malformed("GET /tasks/t%2F");
    malformed("GET /tasks/%2Ft");
    malformed("GET /tasks/mine%2F..%2Ftheirs");
    malformed("GET /quay%2Ftasks%2Ft");
    malformed("POST /tasks%2Ft:cancel");
    malformed("POST /v1%2Fmessage:send");
    malformed("DELETE /tasks/t%2FpushNotificationConfigs");
}

fn refused(line: &str, served: &[Generation], error: TargetError) {
    let (method, path) = line.split_once(' ').unwrap();
    assert_eq!(read_target(method, path, served), Err(error), "{line}");
}
