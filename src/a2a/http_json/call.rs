//! Which call a request makes: what is routed by and authorised.
//!
//! The path says which task it is about, but some agents look into the body or the query instead (those of 0.3 in Python
//! take the task of a push configuration from `parent`). So all places that name a task, a tenant or a push configuration
//! must name the same. A send names its task in the message alone, read like that of a JSON-RPC call.

use bytes::Bytes;

use super::query::Query;
use super::target::Target;
use crate::a2a::json::{self, Kind, Limits, Name, Strict};
use crate::a2a::jsonrpc::{
    Field, MAX_ID_BYTES, Params, Problem, RequestError, RequestErrorKind, is_look_alike, method, method_name, problem,
};
use crate::a2a::v0_3::rest::ResourceName;
use crate::a2a::{Binding, Call, ContextId, Generation, Operation, RpcId, TaskId};

/// Reads the call of a request. `target` is that of its path; an empty `body` is none.
pub fn read_call(target: &Target, query: Option<&str>, body: &Bytes, limits: Limits) -> Result<Call, RequestError> {
    read(target, query, body, limits).map_err(|Problem { kind, at }| RequestError { kind, id: None, at })
}

fn read(target: &Target, query: Option<&str>, body: &[u8], limits: Limits) -> Result<Call, Problem> {
    // What stands in the path or in the query has no place in the body.
    let in_head = |kind| Problem { kind, at: 0 };
    let ids = [&target.task, &target.config];
    if ids.into_iter().flatten().any(|id| id.len() > MAX_ID_BYTES) {
        return Err(in_head(RequestErrorKind::IdTooLong));
    }
    let query = Query::read(query, target.generation, target.operation).map_err(in_head)?;
    check_query(target, &query).map_err(in_head)?;
    let call = Call {
        binding: Binding::HttpJson,
        generation: target.generation,
        operation: target.operation,
        id: RpcId::null(),
        task: target.task.as_deref().map(TaskId::new),
        context: None,
        references: Vec::new(),
        webhook: false,
    };
    match target.operation {
        Operation::Send | Operation::Stream => {
            let body = Body::read(body, target.generation, limits)?;
            body.check(target)?;
            // Empty is absent in both generations: these bodies are ProtoJSON.
            let named = method_name(Generation::V1_0, target.operation).and_then(method);
            let Some(method) = named else {
                return Err(in_head(RequestErrorKind::UnknownMethod));
            };
            Ok(Call {
                binding: Binding::HttpJson,
                generation: target.generation,
                ..body.params.judge(method, RpcId::null(), body.end)?
            })
        }
        Operation::PushCreate => {
            let body = Body::read(body, target.generation, limits)?;
            body.check(target)?;
            body.check_config(target, query.text("configId"))?;
            Ok(call)
        }
        Operation::Cancel | Operation::Subscribe => {
            if !body.is_empty() {
                Body::read(body, target.generation, limits)?.check(target)?;
            }
            Ok(call)
        }
        Operation::List => {
            nothing_in(body, limits)?;
            let context = query.text("contextId");
            if context.is_some_and(|context| context.len() > MAX_ID_BYTES) {
                return Err(in_head(RequestErrorKind::IdTooLong));
            }
            Ok(Call {
                context: context.map(ContextId::new),
                ..call
            })
        }
        Operation::Get | Operation::PushGet | Operation::PushList | Operation::PushDelete | Operation::ExtendedCard => {
            nothing_in(body, limits)?;
            Ok(call)
        }
    }
}

/// Calls without a body in the protocol: some clients write an empty object.
fn nothing_in(body: &[u8], limits: Limits) -> Result<(), Problem> {
    if body.is_empty() {
        return Ok(());
    }
    let mut cursor = Strict::new(body, limits)?;
    let mut is_empty = cursor.kind() == Kind::Object;
    if is_empty {
        cursor.object(|cursor, _| {
            is_empty = false;
            cursor.skip()
        })?;
    } else {
        cursor.skip()?;
    }
    cursor.finish()?;
    if is_empty {
        Ok(())
    } else {
        problem(RequestErrorKind::InvalidParams, 0)
    }
}

fn check_query(target: &Target, query: &Query<'_>) -> Result<(), RequestErrorKind> {
    let agrees = |name: &str, place: &Option<Box<str>>| {
        let asked = query.text(name);
        asked.is_none_or(|asked| place.as_deref() == Some(asked))
    };
    let (task, config) = match target.operation {
        Operation::PushGet | Operation::PushDelete => ("taskId", "id"),
        Operation::PushList | Operation::PushCreate => ("taskId", ""),
        Operation::Send
        | Operation::Stream
        | Operation::Get
        | Operation::List
        | Operation::Cancel
        | Operation::Subscribe
        | Operation::ExtendedCard => ("id", ""),
    };
    let mut agree = agrees("tenant", &target.tenant) && agrees(task, &target.task) && agrees(config, &target.config);
    for name in ["name", "parent"] {
        if let Some(asked) = query.text(name) {
            agree &= ResourceName::read(asked).is_of(target);
        }
    }
    if agree {
        Ok(())
    } else {
        Err(RequestErrorKind::ConflictingPlaces)
    }
}

impl ResourceName<'_> {
    /// The name of what the path names, or of the task that it belongs to; read the same by all.
    fn is_of(&self, target: &Target) -> bool {
        let same = |named: &str, place: &Option<Box<str>>| {
            named.is_empty() || !named.contains('/') && place.as_deref().is_none_or(|place| place == named)
        };
        match target.operation {
            Operation::Cancel | Operation::Subscribe | Operation::Get if self.task.is_empty() => {
                // A bare name is that of the task.
                same(self.config, &target.task)
            }
            Operation::Cancel | Operation::Subscribe | Operation::Get => {
                self.config.is_empty() && same(self.task, &target.task)
            }
            Operation::Send
            | Operation::Stream
            | Operation::List
            | Operation::PushCreate
            | Operation::PushGet
            | Operation::PushList
            | Operation::PushDelete
            | Operation::ExtendedCard => same(self.task, &target.task) && same(self.config, &target.config),
        }
    }
}

/// The members of a body by which something is named.
struct Body<'a> {
    generation: Generation,
    params: Params<'a>,
    tenant: Field<'a>,
    /// In 0.3: what a cancel is about, or a configuration that stands alone.
    name: Field<'a>,
    parent: Field<'a>,
    config_id: Field<'a>,
    /// `config.name`
    config_name: Field<'a>,
    /// The `id` of the push configuration itself.
    inner_id: Field<'a>,
    /// Where a second message, or a second configuration, stands.
    second: Option<usize>,
    has_message: bool,
    has_config: bool,
    end: usize,
}

impl<'a> Body<'a> {
    fn read(body: &'a [u8], generation: Generation, limits: Limits) -> Result<Self, Problem> {
        let mut read = Self {
            generation,
            params: Params::default(),
            tenant: Field::default(),
            name: Field::default(),
            parent: Field::default(),
            config_id: Field::default(),
            config_name: Field::default(),
            inner_id: Field::default(),
            second: None,
            has_message: false,
            has_config: false,
            end: body.len(),
        };
        let mut cursor = Strict::new(body, limits)?;
        let is_object = cursor.kind() == Kind::Object;
        if is_object {
            cursor.object(|cursor, name| match generation {
                Generation::V0_1 | Generation::V0_3 => read.member_of_0_3(cursor, name),
                Generation::V1_0 => read.member(cursor, name),
            })?;
        } else {
            cursor.skip()?;
        }
        cursor.finish()?;
        if !is_object {
            return problem(RequestErrorKind::InvalidParams, 0);
        }
        if let Some(at) = read.params.look_alike {
            return problem(RequestErrorKind::LookAlikeParam, at);
        }
        if let Some(at) = read.second {
            return problem(RequestErrorKind::ConflictingSpellings, at);
        }
        Ok(read)
    }

    fn member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"tenant" => self.tenant.set(cursor.value()?, at),
            other => {
                self.look_alike(other, &["tenant"], at);
                return self.params.member(cursor, name);
            }
        }
        Ok(())
    }

    fn member_of_0_3(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            // `message` is the JSON name of the field `request`, and readers take both.
            b"message" | b"request" => {
                self.once(at, |body| &mut body.has_message);
                return self.params.message(cursor);
            }
            b"name" => self.name.set(cursor.value()?, at),
            b"parent" => self.parent.set(cursor.value()?, at),
            b"configId" | b"config_id" => self.config_id.set(cursor.value()?, at),
            b"config" if cursor.kind() == Kind::Object => {
                return cursor.object(|cursor, name| self.config_member(cursor, name));
            }
            b"config" => self.params.skip_null(cursor, at)?,
            // The whole configuration, as a transcoder made from the protobuf wants it.
            b"pushNotificationConfig" | b"push_notification_config" => return self.inner(cursor),
            other => {
                self.look_alike(other, BODY_0_3, at);
                return self.params.member(cursor, name);
            }
        }
        Ok(())
    }

    fn config_member(&mut self, cursor: &mut Strict<'a>, name: Name<'a>) -> Result<(), json::Error> {
        let at = cursor.at();
        match &*name.decode() {
            b"name" => self.config_name.set(cursor.value()?, at),
            b"pushNotificationConfig" | b"push_notification_config" => return self.inner(cursor),
            other => {
                self.look_alike(other, CONFIG, at);
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn inner(&mut self, cursor: &mut Strict<'a>) -> Result<(), json::Error> {
        if cursor.kind() != Kind::Object {
            return self.params.skip_null(cursor, cursor.at());
        }
        self.once(cursor.at(), |body| &mut body.has_config);
        cursor.object(|cursor, name| {
            let at = cursor.at();
            match &*name.decode() {
                b"id" => self.inner_id.set(cursor.value()?, at),
                other => {
                    self.look_alike(other, &["id"], at);
                    cursor.skip()?;
                }
            }
            Ok(())
        })
    }

    fn once(&mut self, at: usize, which: impl FnOnce(&mut Self) -> &mut bool) {
        if std::mem::replace(which(self), true) {
            self.second = Some(at);
        }
    }

    fn look_alike(&mut self, name: &[u8], known: &[&str], at: usize) {
        if is_look_alike(name, known) {
            self.params.look_alike = Some(at);
        }
    }

    /// The body names what the path names, or nothing.
    fn check(&self, target: &Target) -> Result<(), Problem> {
        agree(&self.tenant, target.tenant.as_deref())?;
        match target.operation {
            Operation::Cancel | Operation::Subscribe => {
                agree(&self.params.id, target.task.as_deref())?;
                agree(&self.params.task, target.task.as_deref())?;
                self.agree_by_name(&self.name, target)
            }
            Operation::PushCreate => {
                if let Some(at) = self.params.bad_configuration {
                    return problem(RequestErrorKind::InvalidParams, at);
                }
                agree(&self.params.task, target.task.as_deref())?;
                self.agree_by_name(&self.parent, target)
            }
            Operation::Send
            | Operation::Stream
            | Operation::Get
            | Operation::List
            | Operation::PushGet
            | Operation::PushList
            | Operation::PushDelete
            | Operation::ExtendedCard => Ok(()),
        }
    }

    /// In 0.3 the id of a new push configuration may stand in four places.
    fn check_config(&self, target: &Target, in_query: Option<&str>) -> Result<(), Problem> {
        if self.generation == Generation::V1_0 {
            // Here it stands in one, within its bounds.
            return self.params.id.text().map(drop);
        }
        let mut config = in_query.map(|id| (std::borrow::Cow::Borrowed(id), 0));
        for field in [&self.name, &self.config_name] {
            self.agree_by_name(field, target)?;
        }
        for (field, is_name) in [
            (&self.config_id, false),
            (&self.inner_id, false),
            (&self.name, true),
            (&self.config_name, true),
        ] {
            let Some((text, at)) = field.text()? else { continue };
            let id = if is_name {
                std::borrow::Cow::Owned(ResourceName::read(&text).config.to_owned())
            } else {
                text
            };
            if id.is_empty() {
                continue;
            }
            match &config {
                Some((first, _)) if *first != id => return problem(RequestErrorKind::ConflictingPlaces, at),
                Some(_) => {}
                None => config = Some((id, at)),
            }
        }
        Ok(())
    }

    fn agree_by_name(&self, field: &Field<'a>, target: &Target) -> Result<(), Problem> {
        match field.text()? {
            Some((name, at)) if !ResourceName::read(&name).is_of(target) => {
                problem(RequestErrorKind::ConflictingPlaces, at)
            }
            Some(_) | None => Ok(()),
        }
    }
}

const BODY_0_3: &[&str] = &[
    "request",
    "name",
    "parent",
    "configId",
    "config_id",
    "config",
    "pushNotificationConfig",
    "push_notification_config",
];
const CONFIG: &[&str] = &["name", "pushNotificationConfig", "push_notification_config"];

/// What a body names is what the path names; empty names nothing.
fn agree(field: &Field<'_>, place: Option<&str>) -> Result<(), Problem> {
    match field.text()? {
        Some((text, at)) if !text.is_empty() && place != Some(&*text) => {
            problem(RequestErrorKind::ConflictingPlaces, at)
        }
        Some(_) | None => Ok(()),
    }
}

impl From<json::Error> for Problem {
    fn from(error: json::Error) -> Self {
        Self {
            kind: RequestErrorKind::Json(error.kind),
            at: error.at,
        }
    }
}
