//! The lists of agents: what everybody may read, and what one caller sees.
//!
//! What everybody may read is put together when a card changes, not for each request. Who shows a credential sees the agents whose
//! requirement it meets and that the rules of listener and agent let it send to, with the skills that it may use; decision points are
//! not asked, and each call is judged by itself. A credential that no agent accepts is refused, as agents refuse it: it never makes
//! its bearer anonymous. Each verifier is asked once a request, after the budget of the address.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http::{HeaderValue, Response, request};
use tokio_util::sync::DropGuard;

use super::usable::Caller;
use super::{Agent, Downstream, Enforced, Pipeline, served};
use crate::a2a::security::Security;
use crate::authenticate::{self, Principal, Requirement, Resource, Verifiers};
use crate::authorize;
use crate::card::{self, Published};
use crate::catalogue::query::{Filter, Query};
use crate::catalogue::{self, Entry, ai, api};
use crate::config::{self, ApiKeyPlace, Config, Listed, RateLimit, SchemeKind};
use crate::drain::Drain;
use crate::gather::token::Binding;
use crate::ratelimit::{RateLimiter, Slot, Stage};
use crate::respond::body::Held;
use crate::respond::{Body, Reject};
use crate::route::{AgentIndex, Place as RoutePlace, RouteMatch};

/// Characters of a name that agents are sorted by: page tokens hold them, and stand in a URL.
const SORTED_BY: usize = 64;
/// A page ends with the agent that makes it longer: cards say how long their entries are.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Agents and skills after which others have their turn: rules may be asked about each of them.
const AGENTS_AT_ONCE: usize = 16;
const SKILLS_AT_ONCE: usize = 16;

/// One configuration of the lists at work.
pub struct Catalogue {
    settings: config::Catalogue,
    public_url: String,
    /// Where callers find the list.
    at: Resource,
    /// By which requests for the list differ.
    vary: Option<HeaderValue>,
    /// In the order of the agents.
    terms: Vec<Terms>,
    budget: Arc<Budget>,
    shelf: ArcSwapOption<Shelf>,
}

/// What callers may ask for, and who works for it.
pub struct Budget {
    limiter: RateLimiter,
    _jobs: DropGuard,
}

/// What the configuration says of one agent.
struct Terms {
    listed: Listed,
    metadata_url: Option<String>,
}

/// What of the lists is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Document {
    Api,
    Ai,
    List,
}

/// What was put together of the cards of a moment.
struct Shelf {
    /// In the order of the agents; `None`: not in service.
    made_of: Vec<Option<Source>>,
    /// By name.
    agents: Vec<Shelved>,
    /// What must be shown: for one agent or the other, and then each distinct requirement.
    requirements: Vec<Requirement>,
    api: Published,
    ai: Published,
}

#[derive(Clone)]
struct Source {
    card: Arc<card::Current>,
    enforced: Arc<Enforced>,
}

struct Shelved {
    index: AgentIndex,
    /// What agents are sorted by; no two have the same.
    key: (String, String),
    entry: Arc<Entry>,
    enforced: Arc<Enforced>,
    listed: Listed,
    /// Its place in the requirements.
    requirement: usize,
}

/// Who asks for the list.
enum Asker {
    Everybody,
    /// For each requirement who it is, if it meets that.
    Known(Arc<Principal>, Vec<Option<Arc<Principal>>>),
}

/// A page of the list.
enum Page {
    Everybodys(Published),
    Callers(Bytes),
}

impl Budget {
    /// Most distinct keys that each rule remembers.
    pub fn start(section: &config::Catalogue, keys: usize, drain: &Drain) -> Self {
        let mut rules = section.rate_limits.clone();
        rules.push(RateLimit::of_addresses("catalogue", section.rate));
        let limiter = RateLimiter::build(&rules, keys);
        let (scope, jobs) = drain.scope();
        limiter.start(&scope);
        Self { limiter, _jobs: jobs }
    }
}

impl Catalogue {
    /// `metadata` has the URL of each agent's metadata of a protected resource, in the order of the agents.
    pub fn build(
        config: &Config,
        section: &config::Catalogue,
        metadata: impl IntoIterator<Item = Option<String>>,
        budget: Arc<Budget>,
    ) -> Self {
        let terms = config.agents.iter().zip(metadata);
        Self {
            settings: section.clone(),
            public_url: config.public_url.clone(),
            at: Resource::unnamed(&config.public_url),
            vary: vary(config),
            terms: terms
                .map(|(agent, metadata_url)| Terms {
                    listed: agent.listed,
                    metadata_url,
                })
                .collect(),
            budget,
            shelf: ArcSwapOption::empty(),
        }
    }

    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What is at a path.
    pub(super) fn document(&self, path: &str) -> Option<Document> {
        match path {
            api::PATH => Some(Document::Api),
            ai::PATH => Some(Document::Ai),
            path if path == self.settings.path => Some(Document::List),
            _ => None,
        }
    }

    /// As the cards are at this moment.
    fn shelf(&self, agents: &[Arc<Agent>], verifiers: &Verifiers) -> Arc<Shelf> {
        let made_of: Vec<Option<Source>> = agents.iter().map(|agent| Source::of(agent)).collect();
        let known = self.shelf.load_full();
        if let Some(shelf) = known.filter(|shelf| are_same(&shelf.made_of, &made_of)) {
            return shelf;
        }
        let shelf = Arc::new(self.put_together(agents, made_of, verifiers));
        self.shelf.store(Some(shelf.clone()));
        shelf
    }

    fn put_together(&self, agents: &[Arc<Agent>], made_of: Vec<Option<Source>>, verifiers: &Verifiers) -> Shelf {
        let mut shelved: Vec<Shelved> = Vec::new();
        let mut distinct: Vec<&Security> = Vec::new();
        let mut requirements: Vec<Requirement> = Vec::new();
        let in_service = made_of
            .iter()
            .enumerate()
            .filter_map(|(index, made)| Some((index, made.as_ref()?)));
        for (index, Source { card, enforced }) in in_service {
            let Some(terms) = self.terms.get(index).filter(|terms| terms.listed != Listed::Never) else {
                continue;
            };
            let security = &card.publication.enforced;
            let requirement = match distinct.iter().position(|known| *known == security) {
                Some(known) => known,
                None => match verifiers.resolve(security, &self.at) {
                    Ok(requirement) => {
                        distinct.push(security);
                        requirements.push(requirement);
                        distinct.len() - 1
                    }
                    // Another configuration is about to look at its card.
                    Err(_) => continue,
                },
            };
            let entry = card.entry.clone();
            shelved.push(Shelved {
                index: AgentIndex(index),
                key: (sorted_by(&entry.summary.name), entry.card_url.clone()),
                entry,
                enforced: enforced.clone(),
                listed: terms.listed,
                requirement: requirement + 1,
            });
        }
        let alternatives = distinct.iter().flat_map(|security| &security.alternatives);
        let mut any = Security::default();
        for alternative in alternatives.filter(|alternative| !alternative.is_empty()) {
            if !any.alternatives.contains(alternative) {
                any.alternatives.push(alternative.clone());
            }
        }
        // Every scheme of it was resolved before.
        match verifiers.resolve(&any, &self.at) {
            Ok(any) => requirements.insert(0, any),
            Err(_) => shelved.clear(),
        }
        shelved.sort_by(|one, other| one.key.cmp(&other.key));
        let listed = || {
            let public = shelved.iter().filter(|shelved| shelved.listed == Listed::Public);
            public.filter_map(|shelved| {
                let AgentIndex(index) = shelved.index;
                let published = shelved.enforced.metadata.is_some();
                let metadata_url = self.terms.get(index)?.metadata_url.as_deref();
                Some(catalogue::Listed {
                    agent: &agents.get(index)?.metrics.name,
                    entry: &shelved.entry,
                    metadata_url: metadata_url.filter(|_| published),
                })
            })
        };
        let max_age = self.settings.max_age;
        let api = Published::new(api::document(listed()), max_age).of_type(api::MEDIA_TYPE);
        let api = match HeaderValue::try_from(api::link(&self.public_url)) {
            Ok(link) => api.linking(link),
            Err(_) => api,
        };
        let ai = Published::new(ai::document(&self.public_url, listed()), max_age).of_type(ai::MEDIA_TYPE);
        Shelf {
            agents: shelved,
            requirements,
            api,
            ai,
            made_of,
        }
    }
}

/// The fields that schemes read. What stands in the URL or in the connection is not of them.
fn vary(config: &Config) -> Option<HeaderValue> {
    let mut fields: Vec<&str> = Vec::new();
    for scheme in config.security_schemes.values() {
        let field = match &scheme.kind {
            SchemeKind::ApiKey { place, name, .. } => match place {
                ApiKeyPlace::Header => name.as_str(),
                ApiKeyPlace::Cookie => "Cookie",
                ApiKeyPlace::Query => continue,
            },
            SchemeKind::Bearer { .. }
            | SchemeKind::Basic { .. }
            | SchemeKind::Http { .. }
            | SchemeKind::OAuth2 { .. }
            | SchemeKind::OpenIdConnect { .. } => "Authorization",
            SchemeKind::MutualTls { .. } => continue,
        };
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    let fields = (!fields.is_empty()).then(|| fields.join(", "))?;
    HeaderValue::try_from(fields).ok()
}

fn are_same(one: &[Option<Source>], other: &[Option<Source>]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                Arc::ptr_eq(&one.card, &other.card) && Arc::ptr_eq(&one.enforced, &other.enforced)
            }
            (Some(_), None) | (None, Some(_)) => false,
        })
}

impl Source {
    fn of(agent: &Agent) -> Option<Self> {
        Some(Self {
            card: agent.card.current()?,
            enforced: agent.in_service().ok()?,
        })
    }
}

impl Pipeline {
    pub(super) async fn catalogue(
        &self,
        catalogue: &Catalogue,
        document: Document,
        client: IpAddr,
        downstream: &Downstream,
        parts: &request::Parts,
        mut held: Held,
    ) -> Result<Response<Body>, (Reject, Held)> {
        let shelf = catalogue.shelf(&self.agents, &self.verifiers);
        let listed = match document {
            Document::Api => return Ok(self.published(&shelf.api, parts, held)),
            Document::Ai => return Ok(self.published(&shelf.ai, parts, held)),
            Document::List => self.list_agents(catalogue, &shelf, client, downstream, parts, &mut held),
        };
        match listed.await {
            Ok(Page::Everybodys(page)) => Ok(self.published(&page, parts, held)),
            Ok(Page::Callers(page)) => Ok(served(card::confide(page, parts), held)),
            Err(reject) => Err((reject, held)),
        }
    }

    async fn list_agents(
        &self,
        catalogue: &Catalogue,
        shelf: &Shelf,
        client: IpAddr,
        downstream: &Downstream,
        parts: &request::Parts,
        held: &mut Held,
    ) -> Result<Page, Reject> {
        let limiter = &catalogue.budget.limiter;
        let limited = |limited| Reject::from(&limited);
        let slot = held.slot.insert(Slot::default());
        let budget = limiter.admit(slot, client, Stage::Address);
        budget.await.map_err(limited)?;
        let query = Query::read(parts.uri.query().unwrap_or_default());
        let query = query.map_err(|error| Reject::bad_query(error.text()))?;
        let asker = Asker::of(shelf, downstream, client, parts, held).await?;
        let caller = match &asker {
            Asker::Everybody => Arc::from(authenticate::ANONYMOUS),
            Asker::Known(principal, _) => {
                held.record.principal = Some(principal.id.clone());
                principal.id.clone()
            }
        };
        let slot = held.slot.get_or_insert_default();
        let budget = limiter.admit(slot, client, Stage::Caller(&caller));
        budget.await.map_err(limited)?;
        let page = self.page(catalogue, shelf, &query, (&asker, client), downstream);
        let bytes = page.await?;
        Ok(match asker {
            Asker::Known(..) => Page::Callers(bytes),
            Asker::Everybody => {
                let page = Published::new(bytes, catalogue.settings.max_age);
                Page::Everybodys(match &catalogue.vary {
                    Some(fields) => page.varying_by(fields.clone()),
                    None => page,
                })
            }
        })
    }

    async fn page(
        &self,
        catalogue: &Catalogue,
        shelf: &Shelf,
        query: &Query,
        (asker, client): (&Asker, IpAddr),
        downstream: &Downstream,
    ) -> Result<Bytes, Reject> {
        let config::Catalogue {
            page_size,
            max_page_size,
            ..
        } = catalogue.settings;
        let most = query.page_size.unwrap_or(page_size).min(max_page_size);
        let purpose = query.filter.purpose();
        let binding = Binding {
            // No agent has this name, whose lists have tokens of the same keys.
            agent: "",
            principal: match asker {
                Asker::Everybody => authenticate::ANONYMOUS,
                Asker::Known(principal, _) => &principal.id,
            },
            question: &purpose,
        };
        let begin = match &query.page_token {
            None => 0,
            Some(token) => {
                let foreign = || Reject::bad_query("page_token is none of this gateway's for this caller and question");
                let place = self.tokens.open_place(binding, token).map_err(|_| foreign())?;
                let key = read_key(&place).ok_or_else(foreign)?;
                shelf.agents.partition_point(|agent| agent.key <= key)
            }
        };
        let (mut page, mut length, mut last) = (Vec::new(), 0, None);
        let mut has_more = false;
        for (index, agent) in shelf.agents.iter().enumerate().skip(begin) {
            if index % AGENTS_AT_ONCE == 0 && matches!(asker, Asker::Known(..)) {
                tokio::task::yield_now().await;
            }
            let shown = self.shown(agent, &query.filter, (asker, client), downstream).await;
            let Some(shown) = shown else { continue };
            if page.len() == most || length > PAGE_BYTES {
                has_more = true;
                break;
            }
            let shown = shown.to_string();
            length += shown.len();
            page.push(shown);
            last = Some(agent);
        }
        let mut list = format!("{{\"agents\":[{}]", page.join(","));
        if let Some(last) = last.filter(|_| has_more) {
            let token = self.tokens.seal_place(binding, &write_key(&last.key));
            let token = token.map_err(|_| Reject::new(crate::observe::Reason::Internal))?;
            // Of letters that need no escape.
            list.push_str(&format!(",\"nextPageToken\":\"{token}\""));
        }
        list.push('}');
        Ok(Bytes::from(list))
    }

    /// An agent as it stands in the list, if it is asked for and may be seen.
    async fn shown(
        &self,
        shelved: &Shelved,
        filter: &Filter,
        (asker, client): (&Asker, IpAddr),
        downstream: &Downstream,
    ) -> Option<serde_json::Value> {
        let Shelved { entry, enforced, .. } = shelved;
        if !filter.admits(entry, |_| true) {
            return None;
        }
        let principals = match asker {
            Asker::Everybody => return (shelved.listed == Listed::Public).then(|| entry.json(|_| true)),
            Asker::Known(_, principals) => principals,
        };
        let principal = principals.get(shelved.requirement)?.as_ref()?;
        let AgentIndex(index) = shelved.index;
        let agent = self.agents.get(index)?;
        let policies = self.policies(downstream, agent);
        let asked = self.asked(downstream, agent, client);
        let call = RouteMatch {
            agent: shelved.index,
            place: RoutePlace::Rpc,
        };
        authorize::route(call, principal.clone(), &enforced.ownership, policies, &asked).ok()?;
        let caller = Caller {
            principal,
            policies,
            asked: &asked,
        };
        let demands = enforced.skills.as_ref().is_some_and(|skills| !skills.is_empty());
        if policies.is_open() && !demands {
            return Some(entry.json(|_| true));
        }
        let mut usable: HashSet<&str> = HashSet::new();
        for skills in entry.summary.skills.chunks(SKILLS_AT_ONCE) {
            let skills = skills.iter().map(|skill| skill.id.as_str());
            usable.extend(skills.filter(|skill| caller.may_use(enforced, skill)));
            tokio::task::yield_now().await;
        }
        if usable.is_empty() && !caller.may_send(None) {
            return None;
        }
        let shows = |skill: &str| usable.contains(skill);
        filter.admits(entry, shows).then(|| entry.json(shows))
    }
}

impl Asker {
    async fn of(
        shelf: &Shelf,
        downstream: &Downstream,
        client: IpAddr,
        parts: &request::Parts,
        held: &mut Held,
    ) -> Result<Self, Reject> {
        let identified = authenticate::identify_each(&shelf.requirements, &downstream.peer, client, parts).await;
        let principals: Vec<_> = identified.iter().map(|one| one.as_ref().ok().cloned()).collect();
        match identified.into_iter().next() {
            None | Some(Err(authenticate::Error::Missing { .. })) => Ok(Self::Everybody),
            Some(Ok(principal)) if principal.is_anonymous() => Ok(Self::Everybody),
            Some(Ok(principal)) => Ok(Self::Known(principal, principals)),
            Some(Err(error)) => {
                held.record.detail = Some(error.as_str());
                Err(Reject::from(&error))
            }
        }
    }
}

fn sorted_by(name: &str) -> String {
    name.chars().take(SORTED_BY).collect::<String>().to_lowercase()
}

/// A URL has no zero in it.
fn write_key((name, url): &(String, String)) -> Vec<u8> {
    [name.as_bytes(), b"\0", url.as_bytes()].concat()
}

fn read_key(bytes: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (name, url) = text.rsplit_once('\0')?;
    Some((name.to_owned(), url.to_owned()))
}
