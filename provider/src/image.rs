//! Images that are sent to a model: their types, and limits that every vendor accepts.
//!
//! An image is recognised by its first bytes, and its size in pixels is read from its header.
//! Nothing is decoded, so a small file that claims a huge picture costs nothing here, and is
//! refused.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

/// A type of images that models take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageType {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
}

impl ImageType {
    /// The number of bytes at the beginning of a file that tell its type.
    pub const HEAD_BYTES: usize = 12;

    /// Returns the type of an image by its first bytes, or nothing for anything else.
    #[must_use]
    pub fn from_head(head: &[u8]) -> Option<Self> {
        match head {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::WebP),
            _ => None,
        }
    }

    /// Returns the media type.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

/// An image with its name. It is displayed as a line for people: its name, its size in pixels and
/// that in bytes.
///
/// A clone shares the data.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    name: String,
    kind: ImageType,
    width: u32,
    height: u32,
    bytes: usize,
    base64: Arc<str>,
}

/// The reason why bytes are not sent as an image.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ImageError {
    /// The first bytes do not belong to a type that models take.
    #[error("it is not a PNG, JPEG, GIF or WebP image")]
    Type,
    /// The header is not complete, or has no size.
    #[error("it begins like an image, but its size in pixels cannot be read from its header")]
    Header,
    /// The image has too many bytes.
    #[error("the image has {bytes} bytes, more than the limit of {}", Image::MAX_BYTES)]
    Bytes {
        /// The size of the image.
        bytes: u64,
    },
    /// The image claims too many pixels.
    #[error(
        "the image has {width} × {height} pixels, more than the limit of {0} × {0}",
        Image::MAX_SIDE
    )]
    Pixels {
        /// The width that the header claims.
        width: usize,
        /// The height that the header claims.
        height: usize,
    },
    /// The data is not in base64.
    #[error("the data of the image is not in base64")]
    Base64,
}

impl Image {
    /// The largest image, in bytes. Anthropic's limit is the lowest, 5 MiB of base64: "image
    /// exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    /// <https://platform.claude.com/docs/en/build-with-claude/vision>.
    pub const MAX_BYTES: u64 = (5 << 20) / 4 * 3;

    /// The largest width and height, in pixels. This is Anthropic's limit for requests of up to
    /// [`Image::MAX_IN_REQUEST`] images, documented at the same address.
    pub const MAX_SIDE: usize = 8000;

    /// The most images of a request. With more images, Anthropic accepts at most 2000 pixels per
    /// side, even for images that were sent before.
    pub const MAX_IN_REQUEST: usize = 20;

    /// The most bytes of all images of a request. Google accepts requests of 20 MB,
    /// <https://ai.google.dev/gemini-api/docs/image-understanding>. In base64, the images have 16
    /// MiB, which leaves room for the texts.
    pub const MAX_BYTES_IN_REQUEST: u64 = 12 << 20;

    /// Checks an image of these bytes.
    ///
    /// # Errors
    ///
    /// Fails with an [`ImageError`].
    pub fn new(name: impl Into<String>, data: &[u8]) -> Result<Self, ImageError> {
        let (kind, width, height) = measure(data)?;
        let (name, bytes, base64) = (name.into(), data.len(), STANDARD.encode(data).into());
        Ok(Self { name, kind, width, height, bytes, base64 })
    }

    /// Checks an image in base64.
    ///
    /// # Errors
    ///
    /// Fails with an [`ImageError`].
    pub fn from_base64(name: impl Into<String>, base64: &str) -> Result<Self, ImageError> {
        // Four characters are at most three bytes. An image that is too large is not decoded.
        let bytes = base64.len() as u64 / 4 * 3;
        if bytes > Self::MAX_BYTES + 2 {
            return Err(ImageError::Bytes { bytes });
        }
        let data = STANDARD.decode(base64).map_err(|_| ImageError::Base64)?;
        Self::new(name, &data)
    }

    /// Returns the name, as the user or the tool gave it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the type.
    #[must_use]
    pub fn kind(&self) -> ImageType {
        self.kind
    }

    /// Returns the width and the height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes in base64.
    #[must_use]
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// Returns the image as the URL with its data that OpenAI takes.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.kind.media_type(), self.base64)
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, width, height, bytes, .. } = self;
        write!(f, "[image {name}, {width} × {height}, {} kB]", bytes.div_ceil(1000))
    }
}

impl fmt::Debug for Image {
    /// Leaves out the data, which may have megabytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Image").field(&self.to_string()).field(&self.kind).finish()
    }
}

/// Returns the type, the width and the height of an image within the limits.
fn measure(data: &[u8]) -> Result<(ImageType, u32, u32), ImageError> {
    let kind = ImageType::from_head(data).ok_or(ImageError::Type)?;
    let bytes = data.len() as u64;
    if bytes > Image::MAX_BYTES {
        return Err(ImageError::Bytes { bytes });
    }
    // The size of a PNG is read from its first chunk, which has to be this one.
    if kind == ImageType::Png && data.get(12..16) != Some(b"IHDR") {
        return Err(ImageError::Header);
    }
    let size = imagesize::blob_size(data).map_err(|_| ImageError::Header)?;
    let (width, height) = (size.width, size.height);
    if width == 0 || height == 0 {
        return Err(ImageError::Header);
    }
    let side = |side: usize| u32::try_from(side).ok().filter(|_| side <= Image::MAX_SIDE);
    match (side(width), side(height)) {
        (Some(width), Some(height)) => Ok((kind, width, height)),
        _ => Err(ImageError::Pixels { width, height }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the beginning of a PNG. No more of it is read.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
        png.extend(width.to_be_bytes());
        png.extend(height.to_be_bytes());
        png.extend([8, 2, 0, 0, 0]);
        png
    }

    fn gif(width: u16, height: u16) -> Vec<u8> {
        let mut gif = b"GIF89a".to_vec();
        gif.extend(width.to_le_bytes());
        gif.extend(height.to_le_bytes());
        gif.extend([0, 0, 0]);
        gif
    }

    /// Returns a JPEG with an application segment before its size.
    fn jpeg(width: u16, height: u16) -> Vec<u8> {
        let mut jpeg = b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".to_vec();
        jpeg.extend(b"\xff\xc0\x00\x11\x08");
        jpeg.extend(height.to_be_bytes());
        jpeg.extend(width.to_be_bytes());
        jpeg.push(3);
        jpeg
    }

    fn webp(width: u32, height: u32) -> Vec<u8> {
        let mut webp = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0".to_vec();
        webp.extend(&(width - 1).to_le_bytes()[..3]);
        webp.extend(&(height - 1).to_le_bytes()[..3]);
        webp
    }

    fn refused(data: &[u8]) -> ImageError {
        Image::new("x", data).expect_err("refused")
    }

    #[test]
    fn an_image_of_each_type_is_measured_by_its_header() {
        for (data, kind) in [
            (png(640, 480), ImageType::Png),
            (jpeg(640, 480), ImageType::Jpeg),
            (gif(640, 480), ImageType::Gif),
            (webp(640, 480), ImageType::WebP),
        ] {
            let image = Image::new("picture", &data).expect("an image");
            assert_eq!((image.kind(), image.size(), image.bytes()), (kind, (640, 480), data.len()));
            assert_eq!(Image::from_base64("picture", image.base64()), Ok(image.clone()));
            let expected = "[image picture, 640 × 480, 1 kB]";
            assert_eq!(image.to_string(), expected);
            let url = format!("data:{};base64,{}", kind.media_type(), STANDARD.encode(&data));
            assert_eq!(image.data_url(), url);
        }
    }

    #[test]
    fn a_bomb_is_refused_with_its_size_and_the_limit() {
        let (width, height) = (100_000, 100_000);
        let error = refused(&png(100_000, 100_000));
        assert_eq!(error, ImageError::Pixels { width, height });
        assert_eq!(
            error.to_string(),
            "the image has 100000 × 100000 pixels, more than the limit of 8000 × 8000"
        );
        assert!(matches!(refused(&png(u32::MAX, 1)), ImageError::Pixels { height: 1, .. }));
        assert!(matches!(refused(&jpeg(8001, 1)), ImageError::Pixels { width: 8001, .. }));
        assert!(matches!(refused(&gif(1, 65_535)), ImageError::Pixels { height: 65_535, .. }));
        assert!(matches!(refused(&webp(1 << 24, 1)), ImageError::Pixels { .. }));
        assert!(Image::new("x", &png(8000, 8000)).is_ok(), "the limit itself");
    }

    #[test]
    fn what_is_no_image_is_refused_with_a_reason() {
        for data in [&b""[..], b"a text", b"\x89PNG", b"GIF", b"RIFF\0\0\0\0WAVE"] {
            assert_eq!(refused(data), ImageError::Type, "{data:?}");
        }
        for (whole, cut) in
            [(png(1, 1), 8), (png(1, 1), 23), (jpeg(1, 1), 12), (gif(1, 1), 9), (webp(1, 1), 12)]
        {
            assert_eq!(refused(&whole[..cut]), ImageError::Header, "{whole:?}");
        }
        assert_eq!(refused(&png(0, 1)), ImageError::Header);
        let mut other = png(1, 1);
        other[12..16].copy_from_slice(b"CgBI");
        assert_eq!(refused(&other), ImageError::Header);
        assert_eq!(Image::from_base64("x", "no base64"), Err(ImageError::Base64));
        assert_eq!(Image::from_base64("x", "AAEC"), Err(ImageError::Type));
    }

    #[test]
    fn an_image_may_have_so_many_bytes_and_no_more() {
        let mut data = png(1, 1);
        data.resize(usize::try_from(Image::MAX_BYTES).expect("a length"), 0);
        let largest = Image::new("x", &data).expect("the limit itself");
        assert_eq!(largest.base64().len(), 5 << 20);
        data.push(0);
        let bytes = Image::MAX_BYTES + 1;
        assert_eq!(refused(&data), ImageError::Bytes { bytes });
        let base64 = STANDARD.encode(&data);
        assert!(matches!(Image::from_base64("x", &base64), Err(ImageError::Bytes { .. })));
        let far = "A".repeat(base64.len() * 2);
        assert!(matches!(Image::from_base64("x", &far), Err(ImageError::Bytes { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_after_the_first_are_an_image_within_the_limits_or_none(
            head in prop::sample::select(vec![png(1, 1), jpeg(1, 1), gif(1, 1), webp(1, 1)]),
            kept in 0usize..40,
            rest in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let data = [&head[..kept.min(head.len())], &rest].concat();
            if let Ok(image) = Image::new("x", &data) {
                let (width, height) = image.size();
                let sides = 1..=u32::try_from(Image::MAX_SIDE).expect("a side");
                prop_assert!(sides.contains(&width) && sides.contains(&height));
            }
        }
    }
}
