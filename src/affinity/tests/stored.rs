//! The same questions to every store: memory, the journal, and a Redis that is shared.
//!
//! What is asked is whose a task is. How much is held is no such question: what memory evicts, the shared store still knows.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::redis::Server;
use super::shared::{Gateway, config_of};
use super::*;

/// A table with its store behind it. Where the store is shared, what a call awaits is awaited.
pub struct Stored {
    affinity: Arc<Affinity>,
    shared: Option<Runtime>,
}

/// Runs a test once for each store, from nothing.
pub fn on_every_store(max_tasks: usize, test: impl Fn(&Stored, &Time)) {
    let time = Time::new();
    test(
        &Stored {
            affinity: Arc::new(memory(max_tasks, &time)),
            shared: None,
        },
        &time,
    );
    let (time, folder) = (Time::new(), tempfile::tempdir().unwrap());
    let volume: Arc<dyn Volume> = Arc::new(Faulty::default());
    let state = embedded(folder.path(), max_tasks);
    let opened = Affinity::open_with(&state, time.clock(), Mode::Strict, volume, COMPACT_FLOOR).unwrap();
    test(
        &Stored {
            affinity: Arc::new(opened),
            shared: None,
        },
        &time,
    );
    let (time, server) = (Time::new(), Server::start());
    let runtime = Runtime::new().unwrap();
    let gateway = runtime.block_on(Gateway::bounded(config_of(&server), &time, max_tasks));
    let stored = Stored {
        affinity: gateway.affinity,
        shared: Some(runtime),
    };
    test(&stored, &time);
}

impl Stored {
    pub fn learn(
        &self,
        agent: &str,
        endpoint: &Arc<str>,
        principal: &Arc<str>,
        generation: Generation,
        revealed: &Revealed,
    ) -> Learned {
        let learned = self.affinity.learn(agent, endpoint, principal, generation, revealed);
        let confirming = self.affinity.confirm(agent, std::slice::from_ref(revealed));
        self.confirmed(learned, confirming)
    }

    pub fn learn_alias(
        &self,
        agent: &str,
        alias: &Alias,
        meaning: &Meaning,
        principal: &Arc<str>,
        state: Option<TaskState>,
    ) -> Learned {
        let learned = self.affinity.learn_alias(agent, alias, meaning, principal, state);
        let confirming = self.affinity.confirm_with(agent, &[], Some(alias));
        self.confirmed(learned, confirming)
    }

    fn confirmed(&self, learned: Learned, confirming: Option<Confirming>) -> Learned {
        match (&self.shared, confirming) {
            (Some(runtime), Some(confirming)) => {
                assert_eq!(runtime.block_on(confirming), Confirmed::Stored);
            }
            (Some(_), None) => assert_ne!(learned, Learned::New, "what is new is told"),
            (None, Some(confirming)) => {
                assert!(self.affinity.store.journal().is_some(), "memory waits for nothing");
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                assert_eq!(runtime.block_on(confirming), Confirmed::Stored);
            }
            (None, None) => {}
        }
        learned
    }

    pub fn context(&self, agent: &str, id: &ContextId) -> Option<Owner> {
        self.inquire(agent, None, Some(id));
        self.affinity.context(agent, id)
    }

    pub fn alias(&self, agent: &str, alias: &Alias) -> Option<Meaning> {
        self.asked(self.affinity.inquire_alias(agent, alias));
        self.affinity.alias(agent, alias)
    }

    fn inquire(&self, agent: &str, task: Option<&TaskId>, context: Option<&ContextId>) {
        self.asked(self.affinity.inquire(agent, task, context));
    }

    fn asked(&self, inquiry: Inquiry) {
        match (inquiry, &self.shared) {
            (Inquiry::Settled, _) => {}
            (Inquiry::Asking(asking), Some(runtime)) => assert_eq!(runtime.block_on(asking), Knowledge::Whole),
            (Inquiry::Away | Inquiry::Asking(_), _) => panic!("nobody is away"),
        }
    }
}

impl Asked for Stored {
    fn task(&self, agent: &str, id: &TaskId) -> Option<Owner> {
        self.inquire(agent, Some(id), None);
        self.affinity.task(agent, id)
    }
}
