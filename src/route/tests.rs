//! Paths and hosts against tables of routes.

use super::*;

fn routes(paths: &[&str], hosts: &[&str]) -> Routes {
    let mut routes = Routes::default();
    let agents: Vec<AgentRoute> = paths
        .iter()
        .map(|path| AgentRoute::Path((*path).to_owned()))
        .chain(hosts.iter().map(|host| AgentRoute::Host((*host).to_owned())))
        .collect();
    routes.fill(&agents, "");
    routes
}

fn check(paths: &[&str], hosts: &[&str], host: &str, path: &str, expected: Result<(usize, Place), Error>) {
    let found = routes(paths, hosts).select(path, || Some(host.to_owned()));
    let expected = expected.map(|(agent, place)| RouteMatch {
        agent: AgentIndex(agent),
        place,
    });
    assert_eq!(found, expected, "{host} {path} over {paths:?} {hosts:?}");
}

#[test]
fn paths_select_the_agent_and_the_place() {
    let paths = ["/agents/maps", "/agents/maps/deep", ""];
    check(&paths, &[], "x", "/agents/maps", Ok((0, Place::Rpc)));
    check(&paths, &[], "x", "/agents/maps/", Ok((0, Place::Rpc)));
    check(
        &paths,
        &[],
        "x",
        "/agents/maps/.well-known/agent-card.json",
        Ok((0, Place::Card)),
    );
    check(
        &paths,
        &[],
        "x",
        "/agents/maps/.well-known/agent.json",
        Ok((0, Place::Card)),
    );
    check(&paths, &[], "x", "/agents/maps/deep", Ok((1, Place::Rpc)));
    check(&paths, &[], "x", "/", Ok((2, Place::Rpc)));
    check(&paths, &[], "x", "/.well-known/agent-card.json", Ok((2, Place::Card)));
}

#[test]
fn what_is_below_a_base_belongs_to_the_deepest_one() {
    let below = |base| Place::Below { base };
    let paths = ["/agents/maps", "/agents/maps/deep", ""];
    check(&paths, &[], "x", "/agents/maps/message:send", Ok((0, below(12))));
    check(&paths, &[], "x", "/agents/maps/a/b/c/d/e/f", Ok((0, below(12))));
    check(&paths, &[], "x", "/agents/maps/deep/tasks/1", Ok((1, below(17))));
    check(&paths, &[], "x", "/agents/maps/deeper/tasks", Ok((0, below(12))));
    check(&paths, &[], "x", "/agents/mapsandmore", Ok((2, below(0))));
    check(&paths, &[], "x", "/agents/other/tasks/1", Ok((2, below(0))));
    check(&paths, &[], "x", "/agents/maps//", Ok((0, below(12))));
    check(&["/agents/maps"], &[], "x", "//agents/maps/tasks", Err(Error::NoAgent));
}

#[test]
fn what_is_no_place_is_refused() {
    let paths = ["/agents/maps"];
    check(&paths, &[], "x", "/agents/map/other", Err(Error::NoAgent));
    check(&paths, &[], "x", "/agents/mapsandmore", Err(Error::NoAgent));
    check(&paths, &[], "x", "/agents/Maps", Err(Error::NoAgent));
    check(&paths, &[], "x", "/", Err(Error::NoAgent));
    check(&paths, &[], "x", "/agents", Err(Error::NoAgent));
}

#[test]
fn hosts_come_before_paths() {
    let (paths, hosts) = (["/agents/maps"], ["maps.example.com"]);
    check(&paths, &hosts, "maps.example.com", "/", Ok((1, Place::Rpc)));
    check(
        &paths,
        &hosts,
        "maps.example.com",
        "/.well-known/agent-card.json",
        Ok((1, Place::Card)),
    );
    check(
        &paths,
        &hosts,
        "maps.example.com",
        "/agents/maps",
        Ok((1, Place::Below { base: 0 })),
    );
    check(&paths, &hosts, "other.example.com", "/agents/maps", Ok((0, Place::Rpc)));
}
