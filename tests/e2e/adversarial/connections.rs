//! More connections than are allowed: refused at once, counted, and given back when one ends.

use super::site::{Setup, Site};
use super::wire::Wire;
use crate::harness::{eventually, get};

async fn open(site: &Site, count: f64) {
    eventually("so many connections are open", || async {
        site.gateway
            .metric("a2a_gateway_connections_open{listener=\"public\"}")
            .await
            == count
    })
    .await;
}

async fn refused(site: &Site, limit: &str) -> f64 {
    site.gateway
        .metric(&format!("a2a_gateway_connections_refused_total{{limit=\"{limit}\""))
        .await
}

async fn at_the_bound_and_past_it(limits: &str, limit: &str) {
    let site = Site::start(Setup {
        top: limits,
        ..Setup::default()
    })
    .await;
    site.works().await;
    open(&site, 0.0).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut wire = Wire::to(site.gateway.address).await;
        // Under way, so that it is accepted for sure and no timer is near.
        wire.send("POST /agent HTTP/1.1\r\n").await;
        held.push(wire);
    }
    open(&site, 3.0).await;
    assert_eq!(refused(&site, limit).await, 0.0, "three are the bound");
    for past in 1..=5 {
        let mut wire = Wire::to(site.gateway.address).await;
        wire.closes().await;
        eventually("the refusal is counted", || async {
            refused(&site, limit).await == f64::from(past)
        })
        .await;
    }
    assert_eq!(
        get(site.gateway.admin, "/ready").await.status,
        200,
        "operators get through"
    );
    open(&site, 3.0).await;
    drop(held.pop());
    open(&site, 2.0).await;
    site.works().await;
    drop(held);
    open(&site, 0.0).await;
    site.works().await;
    site.done().await;
}

#[tokio::test]
async fn one_address_gets_its_share_and_not_one_more() {
    at_the_bound_and_past_it("limits: { connections_per_address: 3 }", "connections_per_address").await;
}

#[tokio::test]
async fn all_together_get_no_more_than_there_are() {
    at_the_bound_and_past_it("limits: { connections: 3, connections_per_address: 10 }", "connections").await;
}

#[tokio::test]
async fn a_refused_or_broken_connection_gives_its_place_back() {
    let site = Site::start(Setup {
        top: "limits: { connections_per_address: 4 }",
        ..Setup::default()
    })
    .await;
    for index in 0..40 {
        // The last caller's connection may still be closing.
        open(&site, 0.0).await;
        let mut wire = Wire::to(site.gateway.address).await;
        match index % 4 {
            0 => wire.send("nonsense\r\n\r\n").await,
            1 => wire.send("POST /agent HT").await,
            2 => {
                wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense nonsense nonsense")
                    .await
            }
            _ => {}
        }
        if index % 4 == 0 {
            assert_eq!(wire.answer().await.status, 400);
            site.note_refused("bad_head", 1);
        }
    }
    open(&site, 0.0).await;
    site.works().await;
    site.done().await;
}
