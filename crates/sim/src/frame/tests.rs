//! Frames and shapes.

use mbuf::{Live, MbufPool, PoolConfig};

use super::{Frame, Shape};

#[test]
fn a_shape_changes_no_byte() {
    // Breaks when a piece is lost, or when a shape is not the shape that its name says.
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    for len in [1, 2, 3, 14, 33, 54, 60, 300, 1514, 9014, 20_000] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
        let frame = Frame::new(bytes.clone());
        for shape in Shape::ALL {
            let packet = frame.to_packet(&pool, shape).expect("buffers");
            assert_eq!(packet.to_vec(), bytes, "{shape:?} of {len}");
            assert!(packet.is_valid());
            if let Shape::Pieces(n) = shape {
                assert!(
                    packet.segments().all(|s| s.len() <= n),
                    "{shape:?} of {len}"
                );
            }
        }
    }
    assert_eq!(pool.live(), Live::NONE);
}
