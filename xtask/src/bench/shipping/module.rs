//! A core module of WASI preview 1, as other languages' compilers build them, encoded here. It
//! prints its schema, and contains enough ordinary code to have the requested length.

/// The name of the tool.
pub(super) const NAME: &str = "bench_module";

/// The address of the schema.
const SCHEMA: u8 = 64;

/// The place of `fd_write` among the functions: the first import.
const FD_WRITE: u8 = 0;

const I32: u8 = 0x7f;
const FUNCTION: u8 = 0x60;
const END: u8 = 0x0b;
const I32_CONST: u8 = 0x41;

/// Returns a module of about `bytes` bytes.
pub(super) fn of_length(bytes: usize) -> Vec<u8> {
    let mut functions = Vec::new();
    while functions.iter().map(Vec::len).sum::<usize>() < bytes {
        functions.push(work(functions.len()));
    }
    let schema = format!(
        r#"{{"name":"{NAME}","description":"Prints this","parameters":{{"type":"object","properties":{{}}}}}}"#
    );
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // The types: `fd_write`, `_start`, and every other function.
    let types: [&[u8]; 3] = [
        &[FUNCTION, 4, I32, I32, I32, I32, 1, I32],
        &[FUNCTION, 0, 0],
        &[FUNCTION, 1, I32, 1, I32],
    ];
    section(&mut module, 1, &list(types.map(<[u8]>::to_vec)));
    let import = [name("wasi_snapshot_preview1"), name("fd_write"), vec![0, 0]].concat();
    section(&mut module, 2, &list([import]));
    let of_type = std::iter::once(vec![1]).chain(functions.iter().map(|_| vec![2]));
    section(&mut module, 3, &list(of_type));
    section(&mut module, 5, &list([vec![0, 2]]));
    let exports = [("memory", [2, 0]), ("_start", [0, 1])];
    section(&mut module, 7, &list(exports.map(|(it, what)| [name(it), what.to_vec()].concat())));
    let bodies = std::iter::once(start()).chain(functions);
    section(&mut module, 10, &list(bodies));
    let at = |address: u8, bytes: &[u8]| {
        [vec![0, I32_CONST], signed(address.into()), vec![END], counted(bytes)].concat()
    };
    let vector = [u32::from(SCHEMA), schema.len() as u32].map(u32::to_le_bytes).concat();
    section(&mut module, 11, &list([at(0, &vector), at(SCHEMA, schema.as_bytes())]));
    module
}

/// Returns the body of `_start`, which writes the schema to stdout.
fn start() -> Vec<u8> {
    const STDOUT: u8 = 1;
    let call = [I32_CONST, STDOUT, I32_CONST, 0, I32_CONST, 1, I32_CONST, 16, 0x10, FD_WRITE];
    // The body has no locals. It drops the error number.
    counted(&[&[0][..], &call, &[0x1a, END]].concat())
}

/// Returns the body of one function: a loop with arithmetic, memory and branches. The numbers in it
/// differ in each function.
fn work(number: usize) -> Vec<u8> {
    let number = i64::try_from(number).unwrap_or(0);
    let constant = |factor: i64| [vec![I32_CONST], signed(number * factor % 60_000)].concat();
    let mut code = vec![1, 2, I32];
    code.extend([0x03, 0x40]);
    for step in 1..=4_i64 {
        // $1 = ($1 + $0 * constant) ^ load((constant + $1) & 0xfffc)
        code.extend([0x20, 1, 0x20, 0]);
        code.extend(constant(7 * step));
        code.extend([0x6c, 0x6a]);
        code.extend(constant(104_729 * step));
        code.extend([0x20, 1, 0x6a, I32_CONST]);
        code.extend(signed(0xfffc));
        code.extend([0x71, 0x28, 2, 0, 0x73, 0x21, 1]);
        // if $1 < constant { store($1 & 0xfffc, $2) } else { $2 = $2 + ($1 >> step) }
        code.extend([0x20, 1]);
        code.extend(constant(31 * step));
        code.extend([0x49, 0x04, 0x40, 0x20, 1, I32_CONST]);
        code.extend(signed(0xfffc));
        code.extend([0x71, 0x20, 2, 0x36, 2, 0, 0x05]);
        code.extend([0x20, 2, 0x20, 1, I32_CONST]);
        code.extend(signed(step));
        code.extend([0x76, 0x6a, 0x21, 2, END]);
    }
    // Repeats while $2 is below a constant. The result is $1 + $2.
    code.extend([0x20, 2]);
    code.extend(constant(13));
    code.extend([0x49, 0x0d, 0, END, 0x20, 1, 0x20, 2, 0x6a, END]);
    counted(&code)
}

fn section(module: &mut Vec<u8>, id: u8, contents: &[u8]) {
    module.push(id);
    module.extend(counted(contents));
}

fn list(items: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let items: Vec<Vec<u8>> = items.into_iter().collect();
    [unsigned(items.len()), items.concat()].concat()
}

fn name(text: &str) -> Vec<u8> {
    counted(text.as_bytes())
}

fn counted(bytes: &[u8]) -> Vec<u8> {
    [unsigned(bytes.len()), bytes.to_vec()].concat()
}

/// Encodes a number in LEB128.
fn unsigned(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Encodes a number that is not negative in signed LEB128, whose last byte has a sign.
fn signed(number: i64) -> Vec<u8> {
    let mut number = usize::try_from(number).unwrap_or(0);
    let mut bytes = Vec::new();
    while number > 0x3f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_has_the_length_that_was_wanted() {
        let module = of_length(50_000);
        assert!(module.starts_with(b"\0asm"));
        assert!((50_000..51_000).contains(&module.len()), "{}", module.len());
        assert_eq!(signed(64), [0xc0, 0x00]);
        assert_eq!(unsigned(300), [0xac, 0x02]);
    }
}
