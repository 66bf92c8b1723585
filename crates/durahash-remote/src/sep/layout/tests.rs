use super::*;

fn geometry() -> Geometry {
    Geometry { cur: 128, limit: 8192, max_depth: 20, rows: 64, nodes: 2 }
}

#[test]
fn refs_keep_node_and_offset() {
    for node in [0, 1, 127, 255] {
        for off in [0, 64, 4096, (1 << 40) - 64] {
            let r = Ref::new(Addr::new(node, off));
            assert_eq!((r.addr(), r), (Addr::new(node, off), Ref::from_word(r.word())));
            assert_eq!(r.word() >> REF_BITS, 0);
        }
    }
    assert!(Ref::new(Addr::new(0, 0)).is_none());
}

/// Every value of every field, each with the others all zero and all one.
#[test]
fn entries_keep_their_fields_apart() {
    let kvs = [Ref(0), Ref(1), Ref((1 << 42) - 1)];
    let lens = (0..8).map(Len);
    for kv in kvs {
        for len in lens.clone() {
            for fp in 0..=255 {
                for generation in 0..128 {
                    for dep in 0..16 {
                        let entry = Entry::new(kv, fp, len, generation, dep);
                        assert_eq!(
                            (entry.kv(), entry.fp(), entry.len(), entry.dep()),
                            (kv, fp, len, dep)
                        );
                        assert_eq!(field(entry.0, 53, 7), generation.into());
                    }
                }
            }
        }
    }
}

/// Of all pairs of generations modulo 128: live in its own, free in the next, else neither.
#[test]
fn an_entry_is_live_in_its_generation_and_free_in_the_next() {
    for at in (0..=300).chain(65_530..=65_535) {
        let entry = Entry::new(Ref(1), 7, Len(1), at, 3);
        assert_eq!(entry.state(at), State::Live);
        assert_eq!(entry.state(at.wrapping_add(1)), State::Free);
        for more in 2..128 {
            assert_eq!(entry.state(at.wrapping_add(more)), State::Other, "{at} + {more}");
        }
    }
    assert_eq!(Entry(0).state(1), State::Free);
    assert_eq!(Entry(0).state(2), State::Other);
}

#[test]
fn word_a_keeps_its_fields_apart() {
    for generation in 0..=u16::MAX {
        for (main, depth) in
            [(Ref(0), 63), (Ref((1 << 42) - 1), 0), (Ref(5), generation as u32 % 64)]
        {
            let a = WordA::new(main, generation, depth);
            assert_eq!((a.main(), a.generation(), a.depth()), (main, generation, depth));
        }
    }
    let a = WordA::new(Ref(9), u16::MAX, 3);
    assert_eq!(a.merged(Ref(10)), WordA::new(Ref(10), 0, 3));
    assert_eq!(a.split(Ref(10)), WordA::new(Ref(10), 0, 4));
}

#[test]
fn the_bits_of_a_hash_are_drawn_once() {
    let hash = 0xfedc_ba98_7654_3210;
    assert_eq!((fp(hash), fp2(hash)), (0xfe, 0xdc));
    assert_eq!((0..8).map(|d| dep(hash, d)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(suffix(hash, 0), 0);
    assert_eq!(suffix(hash, 12), 0x210);
    for depth in 0..40 {
        let bit = hash >> depth & 1;
        assert_eq!(u64::from(dep(hash, depth)) >> (depth % 4) & 1, bit);
    }
}

#[test]
fn rows_suffixes_and_headers_round_trip() {
    for state in [RowState::Free, RowState::Live, RowState::Dead] {
        let row = Row::new(state, 0x3ff, (1 << 42) - 1, 0x2cd);
        assert_eq!(
            (row.state(), row.beat(), row.epoch(), row.incarnation()),
            (state, 0x3ff, (1 << 42) - 1, 0x2cd)
        );
    }
    let suffix = Suffix { bits: 0b1011, made: 4 };
    assert_eq!(Suffix::from_word(suffix.word()), suffix);
    let header = Header { geometry: geometry(), node: 1, seed: 7, id: 8 };
    let mut bytes = MAGIC.to_le_bytes().to_vec();
    bytes.extend(header.words().iter().flat_map(|word| word.to_le_bytes()));
    assert_eq!(bytes.len(), HEADER_BYTES);
    assert_eq!(Header::parse(&bytes).unwrap(), header);
    for other in [VERSION - 1, VERSION + 1] {
        bytes[8] = other as u8;
        let ErrorKind::Version { found, expected } = *Header::parse(&bytes).unwrap_err().kind()
        else {
            panic!("version {other} is not refused as such");
        };
        assert_eq!((found, expected), (other, VERSION));
    }
    bytes[0] += 1;
    assert!(matches!(Header::parse(&bytes).unwrap_err().kind(), ErrorKind::NotAPool { .. }));
}

#[test]
fn parts_of_a_segment_do_not_meet() {
    for (cur, max_depth) in [(2, 1), (4, 3), (8, 6), (128, 20), (4096, 40)] {
        let g = Geometry { cur, max_depth, ..geometry() };
        assert!(g.buddy_off(max_depth - 1) + 8 <= g.entry_off(0));
        assert_eq!(g.entry_off(cur), g.hint_off(0));
        assert_eq!(g.hint_off(cur), g.cur_bytes() as u64);
        assert!(g.row(g.rows - 1).off() + 8 <= g.directory(0).off());
        assert!(g.directory(1 << max_depth).off() <= g.first_chunk(0));
    }
}

/// Also where all entries have one fp: as many as a narrow count holds, and one more.
#[test]
fn main_segments_round_trip() {
    for (len, of_one_fp) in [(0, 2), (300, 2), (65_535, 65_535), (65_536, 65_536), (70_000, 300)] {
        let list: Vec<Item> = (0..len)
            .map(|i| Item {
                entry: Entry::new(Ref(i + 1), (i / of_one_fp) as u8, Len(1), 0, (i % 16) as u8),
                fp2: i as u8,
            })
            .collect();
        let bytes = main_segment(&list, 77);
        assert_eq!(bytes.len(), main_bytes(len as usize));
        let header_bytes = MainHeader::bytes(&bytes[..MAIN_FIRST_READ]);
        assert_eq!(header_bytes, if len < 65_536 { MAIN_FIRST_READ } else { 16 + 4 * FPS });
        let header = MainHeader::parse(&bytes[..header_bytes], 0).unwrap();
        assert_eq!((u64::from(header.len), header.mark), (len, 77));
        assert_eq!(u64::from(header.counts[0]), len.min(of_one_fp));
        assert_eq!(items(&bytes[header_bytes..]).collect::<Vec<_>>(), list);
        for at in [0, 1, 2, 3, 4, 7, 16, 17, 20, header_bytes - 1] {
            let mut bad = bytes[..header_bytes].to_vec();
            bad[at] ^= 1;
            assert!(MainHeader::parse(&bad, 0).is_err(), "{len}: {at}");
        }
    }
}

/// Counts that add up do not make a length that nothing can have.
#[test]
fn a_main_segment_longer_than_any_is_refused() {
    for (count, refused) in [(1_u32 << 20, false), ((1 << 20) + 1, true), (u32::MAX, true)] {
        let mut bytes = (u64::from(count) * FPS as u64).to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        (0..FPS).for_each(|_| bytes.extend(count.to_le_bytes()));
        assert_eq!(MainHeader::parse(&bytes, 0).is_err(), refused, "{count}");
    }
}

#[test]
fn blocks_round_trip_and_damage_shows() {
    let hash = ByteHash::new(1);
    for (key, value) in [(0, 0), (1, 0), (0, 1), (16, 32), (500, 3), (3, 5000)] {
        let (key, value) = (vec![1; key], vec![2; value]);
        let bytes = kv_block(&hash, &key, &value);
        assert_eq!(bytes.len(), kv_bytes(key.len(), value.len()));
        let kv = Kv::parse(&bytes, 0).unwrap();
        assert!(kv.is_whole() && kv.may_be(&key));
        assert_eq!((kv.key().unwrap(), kv.value(&hash, 0).unwrap()), (&key[..], &value[..]));
        let start = Kv::parse(&bytes[..KV_HEADER + key.len() / 2], 0).unwrap();
        assert!(start.may_be(&key) && !start.may_be(&[&key[..], b"x"].concat()));
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            let kv = Kv::parse(&bad, 0);
            assert!(
                kv.is_err() || {
                    let kv = kv.unwrap();
                    !kv.is_whole() || kv.value(&hash, 0).is_err()
                }
            );
        }
    }
}

#[test]
fn lengths_of_entries() {
    assert_eq!(Len::of_block(16), Len(1));
    assert_eq!(Len::of_block(64), Len(1));
    assert_eq!(Len::of_block(65), Len(2));
    assert_eq!(Len::of_block(384), Len(6));
    assert_eq!(Len::of_block(385), Len(7));
    assert_eq!(Len(7).first_read(), 448);
}
