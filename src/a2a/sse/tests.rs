//! Event streams cut at every byte give the same events; an event has a limit, and what is held is bounded.

use super::*;

/// An event as it can be kept: its name and data, `None` when too large.
type Kept = Option<(Name, Vec<u8>)>;

fn kept(event: Event<'_>) -> Kept {
    match event.content {
        Content::Data { name, data } => Some((name, data.to_vec())),
        Content::TooLarge => None,
    }
}

fn scan(chunks: &[&[u8]], most: usize) -> (Vec<Kept>, Scanner) {
    let mut scanner = Scanner::new(most);
    let mut events = Vec::new();
    for chunk in chunks {
        scanner.push(chunk, |event| events.push(kept(event)));
    }
    (events, scanner)
}

fn data(text: &str) -> Kept {
    Some((Name::Message, text.as_bytes().to_vec()))
}

/// The events of a stream, whole and in two pieces cut anywhere, and byte by byte.
fn check(stream: &str, expected: &[Kept], partial: bool) {
    let bytes = stream.as_bytes();
    let mut cuts = vec![vec![bytes]];
    cuts.extend((0..=bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
    cuts.push(bytes.chunks(1).collect());
    cuts.push(bytes.chunks(3).collect());
    for chunks in cuts {
        let (events, scanner) = scan(&chunks, 1000);
        assert_eq!(events, expected, "{stream:?} as {chunks:?}");
        assert_eq!(scanner.has_partial(), partial, "{stream:?} as {chunks:?}");
        if !partial {
            assert_eq!(scanner.buffer.capacity(), 0, "{stream:?} as {chunks:?}");
        }
    }
}

#[test]
fn events_are_found_however_the_stream_is_cut() {
    for (stream, expected) in [
        ("", vec![]),
        ("data: a\n\n", vec![data("a")]),
        ("data: a\r\n\r\n", vec![data("a")]),
        ("data: a\r\r", vec![data("a")]),
        ("data: a\n\ndata: b\n\n", vec![data("a"), data("b")]),
        (
            "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
            vec![data("a\nb"), data("c")],
        ),
        ("data: a\rdata: b\r\rdata: c\r\r", vec![data("a\nb"), data("c")]),
        ("data: a\n\r\ndata: b\r\n\n", vec![data("a"), data("b")]),
        ("data:a\n\ndata:  b\n\n", vec![data("a"), data(" b")]),
        ("data: {\ndata:   \"a\": 1\ndata: }\n\n", vec![data("{\n  \"a\": 1\n}")]),
        ("data\ndata\n\n", vec![data("\n")]),
        ("data: a\ndata\ndata: b\n\n", vec![data("a\n\nb")]),
        // No data, no event.
        ("\n\n\r\n\r\n", vec![]),
        ("data\n\ndata:\n\ndata: \n\n", vec![]),
        ("event: error\n\n", vec![]),
        (": ping\n\n: pong\r\n\r\n", vec![]),
        (": ping - 12:00\r\n\r\ndata: a\r\n\r\n: ping\r\n\r\n", vec![data("a")]),
        (
            ": in\ndata: a\n: between\nid: 1\n: lines\ndata: b\nretry: 5\n\n",
            vec![data("a\nb")],
        ),
        ("id: 7\ndata: a\n\n", vec![data("a")]),
        (
            "data: a\nid: 7\nevent: error\n\ndata: b\n\n",
            vec![Some((Name::Error, b"a".to_vec())), data("b")],
        ),
        (
            "event: message\ndata: a\n\nevent: x\ndata: b\n\n",
            vec![data("a"), Some((Name::Other, b"b".to_vec()))],
        ),
        ("event:error\ndata:a\n\n", vec![Some((Name::Error, b"a".to_vec()))]),
        // Names are case-sensitive, and colons may follow in the value or never come.
        (
            "Data: a\ndatas: b\n data: c\nabcdefghijklmnop: d\nlong line without one\ndata: a:b: c\n\n",
            vec![data("a:b: c")],
        ),
        ("\u{feff}data: a\n\n\u{feff}data: b\n\n", vec![data("a")]),
        ("\u{feff}\ndata: a\n\n", vec![data("a")]),
        ("\u{feff}: ping\n\ndata: a\n\n", vec![data("a")]),
        ("data: caf\u{e9} \u{1F6A2}\n\n", vec![data("caf\u{e9} \u{1F6A2}")]),
    ] {
        check(stream, &expected, false);
    }
}

#[test]
fn a_stream_that_breaks_off_is_partial() {
    for stream in ["d", "data: a", "data: a\n", "id: 1\n", ": pin", "event: x\r\n"] {
        check(stream, &[], true);
        check(&format!("data: x\n\n{stream}"), &[data("x")], true);
    }
    check(": ping\n", &[], false);
}

#[test]
fn half_a_byte_order_mark_is_part_of_the_first_line() {
    for stream in [
        &b"\xEF\xBBdata: a\n\ndata: b\n\n"[..],
        b"\xEF\ndata: b\n\n",
        b"\xEF\xBB\xBF\xEF\n\ndata: b\n\n",
    ] {
        for at in 0..=stream.len() {
            let (events, scanner) = scan(&[&stream[..at], &stream[at..]], 100);
            assert_eq!(events, [data("b")], "{stream:?} at {at}");
            assert!(!scanner.has_partial());
        }
    }
    for (stream, partial) in [(&b"\xEF"[..], true), (b"\xEF\xBB", true), (b"\xEF\xBB\xBF", false)] {
        assert_eq!(scan(&[stream], 100).1.has_partial(), partial, "{stream:?}");
    }
}

#[test]
fn ends_are_where_the_next_event_begins() {
    for (stream, expected) in [
        ("data: a\n\ndata: b\n\n", vec![9, 18]),
        ("data: a\r\n\r\ndata: b\r\n\r\n", vec![11, 22]),
        ("data: a\r\rdata: b\r\r", vec![9, 18]),
        ("\n: ping\n\ndata: a\n\n: ping\n\ndata: b\n\nid: 1\n", vec![18, 35]),
    ] {
        let mut scanner = Scanner::new(100);
        let mut ends = Vec::new();
        scanner.push(stream.as_bytes(), |event| ends.push(event.end));
        assert_eq!(ends, expected, "{stream:?}");
    }
    // The LF of a CRLF that was cut in two belongs to nothing.
    let mut scanner = Scanner::new(100);
    let mut ends = Vec::new();
    for chunk in ["data: a\r\n\r", "\ndata: b\n\n"] {
        scanner.push(chunk.as_bytes(), |event| ends.push(event.end));
    }
    assert_eq!(ends, [10, 10]);
}

#[test]
fn data_is_borrowed_from_the_chunk_when_it_is_whole_there() {
    let chunk = b"id: 1\ndata: abc\n\n";
    let mut scanner = Scanner::new(100);
    let mut at = 0;
    let event = scanner.next(chunk, &mut at).unwrap();
    let Content::Data { data, .. } = event.content else {
        panic!("{event:?}");
    };
    assert!(std::ptr::eq(data, &chunk[12..15]));
    assert_eq!((at, event.end), (17, 17));
    assert_eq!(scanner.next(chunk, &mut at), None);
}

#[test]
fn an_event_has_a_limit_and_is_skipped_past_it() {
    let fits = format!("data: {}\n\n", "x".repeat(93));
    let over = format!("data: {}\n\n", "x".repeat(94));
    let lines = format!("id: 1\ndata: {0}\ndata: {0}\nid: 2\n\n", "x".repeat(50));
    for (stream, expected) in [
        (fits.clone(), vec![data(&"x".repeat(93))]),
        (over.clone(), vec![None]),
        (format!("{over}{fits}"), vec![None, data(&"x".repeat(93))]),
        (format!("{lines}data: a\n\n"), vec![None, data("a")]),
        (format!("{over}{over}data: a\n\n"), vec![None, None, data("a")]),
        // Comments before an event are not held, so they have no limit.
        (format!(": {}\n\ndata: a\n\n", "x".repeat(1000)), vec![data("a")]),
    ] {
        for size in (1..stream.len()).chain([stream.len()]) {
            let chunks: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
            let (events, scanner) = scan(&chunks, 100);
            assert_eq!(events, expected, "{stream:?} by {size}");
            assert!(!scanner.has_partial(), "{stream:?} by {size}");
            assert_eq!(scanner.buffer.capacity(), 0, "{stream:?} by {size}");
        }
    }
}

/// Streams of one event, the length of what counts of it.
#[test]
fn an_event_counts_as_it_came_however_it_is_cut() {
    for (stream, size) in [
        ("data: abc\n\n", 10),
        ("data: abc\r\n\r\n", 11),
        ("data: abc\r\r", 10),
        ("data: a\ndata: b\ndata:\n\n", 22),
        ("data: a\r\ndata: b\r\nid: 1\r\n\r\n", 25),
        (": before\n\n: it\r\ndata: a\n\n", 8),
        ("id: 1\n: within\r\ndata: a\n: behind\n\n", 33),
        ("id: 1\n\ndata: a\n\n", 8),
    ] {
        let bytes = stream.as_bytes();
        let mut cuts: Vec<_> = (1..=bytes.len()).map(|piece| bytes.chunks(piece).collect()).collect();
        cuts.extend((0..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
        for chunks in cuts {
            let (events, _) = scan(&chunks, size);
            assert!(matches!(&events[..], [Some(_)]), "{stream:?} as {chunks:?}");
            let (events, _) = scan(&chunks, size - 1);
            assert_eq!(events, [None], "{stream:?} as {chunks:?}");
        }
    }
}

#[test]
fn only_an_unfinished_event_is_partial() {
    for (done, begun) in [
        ("", "da"),
        ("", "data: a"),
        ("", "data: a\r\ndata: b\r"),
        (": a comment", ""),
        (": a comment\n\n", "id: 1\n"),
        ("data: a\n\n: comment\n", "event: x\n: comment"),
        ("data: a\n\nid: 1\r\n\r\n", "data: {\ndata:"),
        ("data: a\n\n", ""),
        ("data: a\r\n\r", ""),
    ] {
        let stream = format!("{done}{begun}");
        for at in 0..=stream.len() {
            let (front, back) = stream.as_bytes().split_at(at);
            let (_, scanner) = scan(&[front, back], 100);
            assert_eq!(scanner.partial_len(), begun.len(), "{stream:?} at {at}");
        }
    }
}

#[test]
fn what_is_held_is_bounded() {
    let mut scanner = Scanner::new(10_000);
    let mut told = 0;
    for _ in 0..1000 {
        scanner.push(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", |event| {
            assert_eq!(event.content, Content::TooLarge);
            told += 1;
        });
        assert!(scanner.buffer.capacity() <= 20_000);
    }
    assert_eq!(told, 1);
    assert!(scanner.has_partial());
    let mut scanner = Scanner::new(10_000);
    for _ in 0..1000 {
        scanner.push(b": a comment that never ends ", |event| panic!("{event:?}"));
        assert_eq!(scanner.buffer.capacity(), 0);
    }
    assert!(std::mem::size_of::<Scanner>() < 200);
}
