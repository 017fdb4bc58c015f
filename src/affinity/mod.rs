//! stub
use std::sync::Arc;
use std::collections::HashMap;
use std::sync::Mutex;
use crate::a2a::*; use crate::clock::Clock; use crate::drain::Drain; use crate::config;
#[derive(Debug, thiserror::Error)] #[error("x")] pub struct Error;
#[derive(Clone)] pub struct Owner { pub endpoint: Arc<str>, pub principal: Arc<str>, pub state: Option<TaskState>, pub generation: Generation }
#[derive(PartialEq,Eq,Clone,Copy,Debug)] pub enum Learned {New,Known,Updated,Conflict}
#[derive(Default)] pub struct Stats { pub tasks: u64, pub contexts: u64, pub journal_bytes: u64, pub evicted_finished: u64, pub evicted_live: u64, pub write_errors: u64, pub degraded: bool }
pub struct Affinity { t: Mutex<HashMap<(String,String),Owner>>, c: Mutex<HashMap<(String,String),Owner>> }
impl Affinity {
 pub fn open(_: &config::State, _c: Clock) -> Result<Self, Error> { Ok(Self{t:Default::default(),c:Default::default()}) }
 pub fn start(self:&Arc<Self>, _: &Drain) {}
 pub fn task(&self, a:&str, id:&TaskId)->Option<Owner>{ self.t.lock().unwrap().get(&(a.into(),id.as_str().into())).cloned() }
 pub fn context(&self, a:&str, id:&ContextId)->Option<Owner>{ self.c.lock().unwrap().get(&(a.into(),id.as_str().into())).cloned() }
 pub fn learn(&self, a:&str, e:&Arc<str>, p:&Arc<str>, g: Generation, r:&Revealed)->Learned{
  let o=Owner{endpoint:e.clone(),principal:p.clone(),state:r.state,generation:g};
  if let Some(t)=&r.task { self.t.lock().unwrap().insert((a.into(),t.as_str().into()),o.clone()); }
  if let Some(t)=&r.context { self.c.lock().unwrap().insert((a.into(),t.as_str().into()),o); } Learned::New }
 pub fn stats(&self)->Stats{Stats::default()}
 pub fn close(&self){}
}
