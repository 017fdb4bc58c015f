//! Callers of every dialect, which write calls and read answers with the library's own other side.

use a2a_gateway::a2a::answer::{self, Told};
use a2a_gateway::a2a::grpc::{self, Status};
use a2a_gateway::a2a::model::{self, PushConfig};
use a2a_gateway::a2a::translate::{Original, Pair, Webhooks, Written};
use a2a_gateway::a2a::{Addressed, Binding, Call, Dialect, Generation, Operation, RpcId, json, jsonrpc};
use a2a_gateway::a2a::{Generation::V0_3, Generation::V1_0};
use serde_json::{Value, json};

use super::client::{Rpc, open_grpc};
use super::{Answer, Gateway, KEY, call};

pub const CALLERS: [Dialect; 6] = [
    dialect(V0_3, Binding::JsonRpc),
    dialect(V1_0, Binding::JsonRpc),
    dialect(V0_3, Binding::HttpJson),
    dialect(V1_0, Binding::HttpJson),
    dialect(V0_3, Binding::Grpc),
    dialect(V1_0, Binding::Grpc),
];

pub const fn dialect(generation: Generation, binding: Binding) -> Dialect {
    Dialect { generation, binding }
}

/// Webhooks that stay as they are.
struct AsTheyAre;

impl Webhooks for AsTheyAre {
    fn register(&self, _: &mut PushConfig<'_>) -> Result<(), model::Error> {
        Ok(())
    }

    fn show(&self, _: &mut PushConfig<'_>) {}
}

/// A caller of a dialect.
#[derive(Clone, Copy)]
pub struct Caller(pub Dialect);

/// What a caller got: results, events or an error's code in JSON-RPC.
pub type Got = Result<Vec<Value>, i64>;

impl Caller {
    fn pair(self) -> Pair {
        Pair {
            caller: dialect(V1_0, Binding::JsonRpc),
            agent: self.0,
            tenant: None,
            named: None,
            asked: None,
        }
    }

    pub fn write(self, operation: Operation, params: &Value) -> Written {
        let method = jsonrpc::method_name(V1_0, operation).unwrap();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let original = Original {
            addressed: &Addressed::JsonRpc,
            query: None,
            body: body.as_bytes(),
        };
        let call = Call {
            binding: Binding::JsonRpc,
            generation: V1_0,
            operation,
            id: RpcId::one(),
            task: None,
            context: None,
            references: Vec::new(),
            webhook: false,
        };
        self.pair().request(&call, original, Some(&AsTheyAre)).unwrap()
    }

    /// What one answer or event says.
    fn read(self, operation: Operation, told: Told<'_>) -> Got {
        let read = answer::read(self.0, told, operation, json::Limits::default()).unwrap();
        let told = self
            .pair()
            .answer(operation, &RpcId::one(), told, &read.revealed, Some(&AsTheyAre));
        let told: Value = serde_json::from_slice(&told.unwrap().body).unwrap();
        match told["error"]["code"].as_i64() {
            Some(code) => Err(code),
            None => Ok(vec![told["result"].clone()]),
        }
    }

    pub async fn ask(self, gateway: &Gateway, operation: Operation, params: &Value) -> Got {
        self.by(KEY, gateway, operation, params).await
    }

    pub async fn by(self, key: &str, gateway: &Gateway, operation: Operation, params: &Value) -> Got {
        self.at("", key, gateway, operation, params).await
    }

    /// At an interface with this path, without a slash at the end.
    pub async fn at(self, base: &str, key: &str, gateway: &Gateway, operation: Operation, params: &Value) -> Got {
        let written = self.write(operation, params);
        let mut headers = vec![("x-api-key", key)];
        if self.0.generation == V1_0 {
            headers.push(("a2a-version", "1.0"));
        }
        if self.0.binding == Binding::Grpc {
            let response = open_grpc(gateway.address, &written.path, &headers, written.body).await;
            return self.read_rpc(operation, &Rpc::read(response).await);
        }
        // Which says nothing in these bindings.
        headers.push(("grpc-timeout", "1n"));
        if !written.body.is_empty() {
            headers.push(("content-type", "application/json"));
        }
        let path = match (&*written.path, &written.query) {
            ("", _) if base.is_empty() => "/".to_owned(),
            ("", _) => base.to_owned(),
            (path, None) => format!("{base}{path}"),
            (path, Some(query)) => format!("{base}{path}?{query}"),
        };
        let body = String::from_utf8(written.body).unwrap();
        let answer = call(gateway.address, written.verb.as_str(), &path, &headers, &body).await;
        self.read_http(operation, &answer)
    }

    fn read_http(self, operation: Operation, answer: &Answer) -> Got {
        if answer.header("content-type") != Some("text/event-stream") {
            return self.read(operation, Told::whole(answer.status, &answer.body));
        }
        let text = answer.text();
        let mut events = Vec::new();
        for event in text.split_terminator("\n\n").filter(|event| *event != ":") {
            let (name, data) = event.split_once("data: ").unwrap();
            events.extend(self.read(operation, Told::event(data.as_bytes(), !name.is_empty()))?);
        }
        Ok(events)
    }

    fn read_rpc(self, operation: Operation, rpc: &Rpc) -> Got {
        let mut frames = grpc::Frames::new(1 << 20);
        frames.push(rpc.body.clone().into());
        let mut events = Vec::new();
        while let Some(message) = frames.take().unwrap() {
            events.extend(self.read(operation, Told::event(&message, false))?);
        }
        assert!(!frames.has_partial());
        let details = rpc.field("grpc-status-details-bin");
        let status = Status {
            code: rpc.status(),
            message: rpc.field("grpc-message").unwrap_or_default().to_owned(),
            details: details.and_then(|details| grpc::decode_details(details.as_bytes())),
        };
        match status.code {
            0 => Ok(events),
            _ => self.read(operation, Told::ended(&status)),
        }
    }
}
