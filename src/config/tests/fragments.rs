//! Agents from files of their own: which of them are taken, and how mistakes in them are told.

use std::cell::Cell;
use std::path::Path;

use tempfile::TempDir;

use super::super::fragments::{self, Found};
use super::super::{Blame, Config, Environment, Fragments, Problem, Standing, examine_again, render};
use super::super::{files, load, tree};

const MAIN: &str = "
public_url: https://agents.example.com
listeners: [ { name: public, address: 127.0.0.1:0 } ]
state: { store: memory }
agents_directory: conf.d
";

struct Folder(TempDir);

impl Folder {
    fn new(main: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("conf.d")).unwrap();
        std::fs::write(folder.path().join("gateway.yaml"), format!("{MAIN}{main}")).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn put(&self, file: &str, text: &str) -> &Self {
        std::fs::write(self.path().join("conf.d").join(file), text).unwrap();
        self
    }

    fn remove(&self, file: &str) {
        std::fs::remove_file(self.path().join("conf.d").join(file)).unwrap();
    }

    fn read(&self, in_force: &Fragments) -> Result<Config, String> {
        let environment = [("PLACE", "/from-environment")].into_iter().collect();
        self.read_with(&environment, &Standing::of(in_force))
    }

    fn read_with(&self, environment: &Environment, standing: &Standing) -> Result<Config, String> {
        let path = self.path().join("gateway.yaml");
        examine_again(&path, environment, standing).map_err(|invalid| render(&invalid.problems))
    }

    fn first(&self) -> Config {
        self.read(&Fragments::default())
            .unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn after(&self, before: &Config) -> Config {
        self.read(&before.fragments)
            .unwrap_or_else(|problems| panic!("{problems}"))
    }
}

fn agent(name: &str, path: &str) -> String {
    format!("name: {name}\npath: {path}\nupstream: {{ endpoints: [ {{ url: \"http://a:1\" }} ] }}\n")
}

fn names(config: &Config) -> Vec<&str> {
    config.agents.iter().map(|agent| agent.name.as_str()).collect()
}

fn refused(config: &Config) -> Vec<String> {
    config.fragments.problems().map(Problem::to_string).collect()
}

#[test]
fn each_file_holds_one_agent_or_a_list() {
    let folder =
        Folder::new("agents: [ { name: main, path: /main, upstream: { endpoints: [ { url: http://a:1 } ] } } ]");
    folder.put("b.yaml", &agent("b", "${PLACE}"));
    folder.put("a.yaml", &format!("[ {{ {} }}, {{ {} }} ]", flow("a1"), flow("a2")));
    folder.put("none.yaml", "[]");
    folder.put(".hidden.yaml", "- nonsense").put("note.txt", "- nonsense");
    std::fs::create_dir(folder.path().join("conf.d/folder.yaml")).unwrap();
    let config = folder.first();
    assert_eq!(names(&config), ["main", "a1", "a2", "b"]);
    assert_eq!(refused(&config), [""; 0]);
    assert!(format!("{:?}", config.agents[3].route).contains("/from-environment"));
    let places: Vec<_> = config
        .fragments
        .in_force
        .iter()
        .map(|one| (one.file.as_str(), one.agents.clone()))
        .collect();
    assert_eq!(places, [("a.yaml", 1..3), ("b.yaml", 3..4), ("none.yaml", 4..4)]);
    assert!(config.files().contains(&folder.path().join("conf.d")));
    assert!(
        !format!("{:?}", config.fragments).contains("http"),
        "texts may hold secrets"
    );
}

fn flow(name: &str) -> String {
    agent(name, &format!("/{name}")).trim_end().replace('\n', ", ")
}

#[test]
fn without_agents_of_its_own_the_file_may_begin_empty() {
    let folder = Folder::new("");
    assert!(folder.first().agents.is_empty());
    folder.put("a.yaml", &agent("a", "/a"));
    assert_eq!(names(&folder.first()), ["a"]);
}

#[test]
fn each_mistake_is_told_as_its_file_has_it() {
    for (text, expected) in [
        ("", "x.yaml: is empty; write one agent, or a list of agents"),
        ("word", "x.yaml: is no agent; write one agent, or a list of agents"),
        ("a: [\n", "x.yaml (line 1): unclosed bracket '['"),
        (
            "name: ${NONE}\n",
            "x.yaml: name (line 1): the environment variable `NONE` is not set",
        ),
        ("- 5", "x.yaml: [0] (line 1): expected a mapping, found a number"),
        (
            "name: x\npth: /x\nupstream: { endpoints: [ { url: http://a:1 } ] }",
            "x.yaml: pth (line 2): unknown key; did you mean `path`?",
        ),
        (
            "- name: x\n  path: /x\n  upstream: { endpoints: [] }",
            "x.yaml: [0].upstream.endpoints (line 3): needs at least one endpoint",
        ),
        (
            "- name: x\n  path: /x\n  upstream: { endpoints: [ { url: http://a:1 } ] }\n- name: x\n  path: /y\n  upstream: { endpoints: [ { url: http://a:1 } ] }",
            "x.yaml: [1].name (line 4): `x` is already used by x.yaml: [0].name",
        ),
        (
            "name: x\npath: /good\nupstream: { endpoints: [ { url: http://a:1 } ] }",
            "x.yaml: path (line 2): `/good` is already used by a.yaml: path",
        ),
        (
            "name: x\npath: /x\nsecurity: [ { none: [] } ]\nupstream: { endpoints: [ { url: http://a:1 } ] }",
            "x.yaml: security[0].none (line 3): there is no `none` in security_schemes",
        ),
    ] {
        let folder = Folder::new("");
        folder.put("x.yaml", text).put("a.yaml", &agent("a", "/good"));
        let config = folder.first();
        assert_eq!(names(&config), ["a"], "{text}");
        assert_eq!(refused(&config), [expected], "{text}");
        assert_eq!(config.fragments.refused[0].file, "x.yaml");
    }
}

#[test]
fn what_is_in_force_of_a_file_stays_until_it_is_good_again_or_gone() {
    let folder = Folder::new("");
    folder.put("a.yaml", &agent("a", "/a")).put("b.yaml", &agent("b", "/b"));
    let first = folder.first();
    folder.put("b.yaml", "name: [").put("c.yaml", &agent("c", "/c"));
    let second = folder.after(&first);
    assert_eq!(names(&second), ["a", "b", "c"]);
    let former: Vec<_> = second
        .fragments
        .in_force
        .iter()
        .filter(|one| one.is_former)
        .map(|one| one.file.as_str())
        .collect();
    assert_eq!((former, refused(&second).len()), (vec!["b.yaml"], 1));
    // Also over further readings.
    let third = folder.after(&second);
    assert_eq!(
        (names(&third), third.fragments == second.fragments),
        (vec!["a", "b", "c"], true)
    );
    folder.put("b.yaml", &agent("b2", "/b"));
    let fourth = folder.after(&third);
    assert_eq!((names(&fourth), refused(&fourth).len()), (vec!["a", "b2", "c"], 0));
    folder.put("b.yaml", "nonsense");
    let fifth = folder.after(&fourth);
    assert_eq!(names(&fifth), ["a", "b2", "c"]);
    folder.remove("b.yaml");
    let sixth = folder.after(&fifth);
    assert_eq!((names(&sixth), refused(&sixth).len()), (vec!["a", "c"], 0));
    assert_eq!(names(&folder.read(&Fragments::default()).unwrap()), ["a", "c"]);
}

#[test]
fn who_is_in_force_keeps_what_it_has() {
    // At a start the first by name has it.
    let folder = Folder::new("");
    folder.put("b.yaml", &agent("x", "/b")).put("c.yaml", &agent("x", "/c"));
    let first = folder.first();
    assert_eq!(first.fragments.in_force[0].file, "b.yaml");
    assert_eq!(
        refused(&first),
        ["c.yaml: name (line 1): `x` is already used by b.yaml: name"]
    );
    // Later neither one that comes before it takes it away,
    folder.put("a.yaml", &agent("x", "/a"));
    let second = folder.after(&first);
    assert_eq!(second.fragments.in_force.len(), 1);
    assert_eq!(second.fragments.in_force[0].file, "b.yaml");
    // nor a change of another one that is in force.
    folder.put("a.yaml", &agent("a", "/a"));
    let third = folder.after(&second);
    assert_eq!(names(&third), ["a", "x"]);
    folder.put("a.yaml", &agent("a", "/b"));
    let fourth = folder.after(&third);
    assert_eq!(names(&fourth), ["a", "x"]);
    assert!(
        refused(&fourth)
            .iter()
            .any(|problem| problem == "a.yaml: path (line 2): `/b` is already used by b.yaml: path")
    );
    // What moves from one to the other is nobody's twice.
    folder
        .put("a.yaml", &agent("x", "/b"))
        .put("b.yaml", &agent("b", "/bb"));
    folder.remove("c.yaml");
    let fifth = folder.after(&fourth);
    assert_eq!((names(&fifth), refused(&fifth).len()), (vec!["x", "b"], 0));
}

#[test]
fn the_configuration_file_wins_at_a_start_and_is_refused_later() {
    let own = "agents: [ { name: x, path: /x, upstream: { endpoints: [ { url: http://a:1 } ] } } ]";
    let folder = Folder::new(own);
    folder.put("a.yaml", &agent("x", "/a")).put("b.yaml", &agent("b", "/b"));
    let first = folder.first();
    assert_eq!(names(&first), ["x", "b"]);
    assert_eq!(
        refused(&first),
        ["a.yaml: name (line 1): `x` is already used by agents[0].name"]
    );
    let main = |text: &str| std::fs::write(folder.path().join("gateway.yaml"), format!("{MAIN}{text}")).unwrap();
    main(&own.replace("name: x, path: /x", "name: b, path: /x"));
    assert_eq!(
        folder.read(&first.fragments).unwrap_err(),
        "b.yaml: name (line 1): `b` is already used by agents[0].name\n"
    );
    // A mistake of its own is told as ever.
    main(&own.replace("/x", "x"));
    assert_eq!(
        folder.read(&first.fragments).unwrap_err(),
        "agents[0].path (line 6): must begin with `/`\n"
    );
}

/// Where the key at fault is none of the file's.
#[test]
fn what_only_both_together_make_wrong_is_the_newer_ones_fault() {
    let folder = Folder::new("catalogue: { path: /list }");
    folder
        .put("a.yaml", &agent("a", "/a"))
        .put("b.yaml", &agent("b", "/list"));
    let first = folder.first();
    assert_eq!(names(&first), ["a"]);
    assert_eq!(
        refused(&first),
        ["b.yaml: catalogue.path: is at or below b.yaml: path; choose another path"]
    );
    std::fs::write(
        folder.path().join("gateway.yaml"),
        format!("{MAIN}catalogue: {{ path: /a }}"),
    )
    .unwrap();
    assert_eq!(
        folder.read(&first.fragments).unwrap_err(),
        "a.yaml: catalogue.path: is at or below a.yaml: path; choose another path\n"
    );
}

#[test]
fn a_folder_that_cannot_be_read_takes_nothing_away() {
    let folder = Folder::new("");
    folder.put("a.yaml", &agent("a", "/a"));
    let first = folder.first();
    std::fs::rename(folder.path().join("conf.d"), folder.path().join("away")).unwrap();
    let second = folder.after(&first);
    assert_eq!(names(&second), ["a"]);
    assert_eq!(second.fragments.refused[0].file, "");
    assert!(
        refused(&second)[0].starts_with("agents_directory: cannot read "),
        "{:?}",
        refused(&second)
    );
    // At a start there is nothing to keep.
    assert!(folder.first().agents.is_empty());
}

#[test]
fn what_is_found_later_is_told_in_the_words_of_the_file() {
    let folder = Folder::new("");
    folder.put("a.yaml", &agent("a", "/a"));
    folder.put("b.yaml", &format!("- {{ {} }}\n- {{ {} }}", flow("b1"), flow("b2")));
    folder.put("c.yaml", &agent("c", "/c"));
    let mut config = folder.first();
    let found = [Problem::new(
        "agents[2].upstream.tls.ca",
        "see agents[3].path, agents[9] and agents[x]",
    )];
    let expected = "b.yaml: [1].upstream.tls.ca (line 2): see c.yaml: path, agents[9] and agents[x]";
    let mut standing = Standing::default();
    assert!(matches!(
        standing.refuse(&found, &config.fragments, &config.places),
        Blame::Newer
    ));
    let second = folder.read_with(&Environment::default(), &standing).unwrap();
    assert_eq!(
        (names(&second), refused(&second)),
        (vec!["a", "c"], vec![expected.to_owned()])
    );
    // Of what is in force nothing can be left out.
    let mut standing = Standing::of(&config.fragments);
    match standing.refuse(&found, &config.fragments, &config.places) {
        Blame::InForce(problems) => assert_eq!(problems[0].to_string(), expected),
        Blame::Nobody | Blame::Newer => panic!("it is in force"),
    }
    let others = [
        Problem::new("listeners[0].tls", "x"),
        Problem::new("agents[7].name", "x"),
    ];
    assert!(matches!(
        standing.refuse(&others, &config.fragments, &config.places),
        Blame::Nobody
    ));
    // At a start.
    assert_eq!(config.leave_out(&others), [""; 0]);
    assert_eq!(config.leave_out(&found), ["b1", "b2"]);
    assert_eq!(
        (names(&config), refused(&config)),
        (vec!["a", "c"], vec![expected.to_owned()])
    );
    let places: Vec<_> = config.fragments.in_force.iter().map(|one| one.agents.clone()).collect();
    assert_eq!(places, [0..1, 1..2]);
}

/// A place of the gateway that a file claims is told under the gateway's key, so that it must be tried whose fault it is.
#[test]
fn one_bad_file_among_many_is_found_in_few_steps() {
    let root = tree::parse(&format!("{MAIN}front_door: {{}}")).unwrap();
    let files = (0..200).map(|n| (format!("f{n:03}.yaml"), agent(&format!("n{n}"), &format!("/n{n}"))));
    let bad = ["f100a.yaml", "f150a.yaml"].map(|file| (file.to_owned(), agent(&file.replace(".yaml", ""), "/")));
    let found = Found::of(files.chain(bad));
    let checks = Cell::new(0);
    let environment = Environment::default();
    let settled = fragments::settle(&root, &found, &environment, &Standing::default(), 0, |root, spares| {
        checks.set(checks.get() + 1);
        load::fit(root, Path::new("/"), Vec::new(), spares)
    });
    let config = settled.unwrap_or_else(|invalid| panic!("{}", render(&invalid.problems)));
    assert_eq!(config.agents.len(), 200);
    assert_eq!(
        refused(&config),
        [
            "f100a.yaml: front_door: has the place of f100a.yaml: path; choose another `path` or `host`",
            "f150a.yaml: path (line 2): `/` is already used by f100a.yaml: path",
        ]
    );
    assert!(checks.get() < 50, "{} checks", checks.get());
}

#[test]
fn what_is_more_than_room_is_left_out_and_told() {
    let folder = Folder::new("");
    for n in 0..files::MAX_FRAGMENTS {
        folder.put(&format!("{n:05}.yaml"), "[]");
    }
    folder.put("z.yaml", &agent("z", "/z")).remove("00000.yaml");
    let first = folder.first();
    assert_eq!((names(&first), refused(&first)), (vec!["z"], vec![]));
    // What is in force stays, a start takes the first ones.
    folder.put("00000.yaml", &agent("a", "/a"));
    let told = |config: &Config| refused(config)[0].starts_with("agents_directory: ") && refused(config).len() == 1;
    let second = folder.after(&first);
    assert_eq!(
        (names(&second), told(&second)),
        (vec!["z"], true),
        "{:?}",
        refused(&second)
    );
    let started = folder.first();
    assert_eq!((names(&started), told(&started)), (vec!["a"], true));
}

/// The front door may name agents that come with their files, and stand before nobody.
#[test]
fn a_front_door_waits_for_files() {
    let folder = Folder::new("front_door: { agents: [ a, b ], default: a, rules: [ { when: \"true\", agent: b } ] }");
    assert_eq!(folder.first().front_door.unwrap().agents, ["a", "b"]);
    assert!(Folder::new("front_door: {}").first().agents.is_empty());
    let folder = Folder::new("front_door: { agents: [ a ], default: b }");
    assert_eq!(
        folder.read(&Fragments::default()).unwrap_err(),
        "front_door.default (line 6): no agent behind the front door is called `b`\n"
    );
}

/// What all files hold is in memory at once.
#[test]
fn files_have_room_together() {
    let folder = Folder::new("");
    let long = format!("#{}\n", "x".repeat(15 << 20));
    for name in ["a", "b", "c", "d", "e"] {
        folder.put(
            &format!("{name}.yaml"),
            &format!("{long}{}", agent(name, &format!("/{name}"))),
        );
    }
    folder.put("f.yaml", &agent("f", "/f"));
    let first = folder.first();
    assert_eq!(names(&first), ["a", "b", "c", "d", "f"]);
    assert_eq!(
        refused(&first),
        ["e.yaml: does not fit: the files before it and this one have more than 67108864 bytes"]
    );
    // What is in force stays when others become longer.
    folder.put("0.yaml", &format!("{long}[]"));
    let second = folder.after(&first);
    assert_eq!(names(&second), ["a", "b", "c", "d", "f"]);
    assert_eq!(second.fragments.refused.len(), 2, "{:?}", refused(&second));
}
