import { readBytes } from './bytes.ts'

/** A file of an archive. */
export type PackedFile = { name: string; size: number; data: AsyncIterable<Uint8Array> }

/** The archive is invalid or incomplete; the text is shown to the user. */
export class ArchiveError extends Error {}

const BLOCK = 512
const MAX_OCTAL = 8 ** 11
const PIECE = 1_048_576

/**
 * Writes files into an archive that `tar` can open (POSIX ustar). @param mtime  seconds since 1970
 * @throws ArchiveError  if a file's size changed
 */
export async function* pack(
  files: Iterable<PackedFile> | AsyncIterable<PackedFile>,
  mtime: number,
): AsyncGenerator<Buffer> {
  for await (const { name, size, data } of files) {
    yield headerOf({ name, size, mtime })
    let packed = 0
    for await (const piece of data) {
      packed += piece.length
      yield Buffer.from(piece.buffer, piece.byteOffset, piece.length)
    }
    if (packed !== size)
      throw new ArchiveError(`${name} changed during the backup: it has ${packed} bytes instead of ${size}.`)
    yield Buffer.alloc(paddingOf(size))
  }
  yield Buffer.alloc(2 * BLOCK)
}

/** Unpacks the files of an archive in order; the caller must read the data of each to its end before the next. @throws ArchiveError */
export async function* unpack(source: AsyncIterable<Uint8Array>): AsyncGenerator<PackedFile> {
  const reader = readBytes(source)
  for (;;) {
    const header = await reader.read(BLOCK)
    if (header.length < BLOCK) throw cut()
    if (header.every((byte) => byte === 0)) break
    const { name, size } = readHeader(header)
    let left = size
    yield { name, size, data: data() }
    if (left > 0) throw new ArchiveError('A file of the archive was not read to its end.')
    if ((await reader.read(paddingOf(size))).length < paddingOf(size)) throw cut()

    async function* data(): AsyncGenerator<Buffer> {
      while (left > 0) {
        const piece = await reader.read(Math.min(left, PIECE))
        if (piece.length === 0) throw cut()
        left -= piece.length
        yield piece
      }
    }
  }
  // Read to the end, where decryption detects truncation.
  while ((await reader.read(PIECE)).length > 0);
}

const cut = (): ArchiveError => new ArchiveError('The archive ends too early.')

const paddingOf = (size: number): number => (BLOCK - (size % BLOCK)) % BLOCK

function headerOf({ name, size, mtime }: { name: string; size: number; mtime: number }): Buffer {
  const header = Buffer.alloc(BLOCK)
  header.write(name, 0, 100, 'ascii')
  header.write('0000600\0', 100, 'ascii')
  header.write('0000000\0', 108, 'ascii')
  header.write('0000000\0', 116, 'ascii')
  writeSize(header, size)
  header.write(`${mtime.toString(8).padStart(11, '0')}\0`, 136, 'ascii')
  header.write('0', 156, 'ascii')
  header.write('ustar\x0000', 257, 'latin1')
  header.write(`${sumOf(header).toString(8).padStart(6, '0')}\0 `, 148, 'ascii')
  return header
}

/** Writes a size; from 8 GiB on as a binary number, which GNU tar and bsdtar support. */
function writeSize(header: Buffer, size: number): void {
  if (size < MAX_OCTAL) return void header.write(`${size.toString(8).padStart(11, '0')}\0`, 124, 'ascii')
  header[124] = 0x80
  header.writeBigUInt64BE(BigInt(size), 128)
}

function readHeader(header: Buffer): { name: string; size: number } {
  const field = (start: number, length: number) => header.toString('latin1', start, start + length).replace(/[\0 ]+$/, '') // prettier-ignore
  const sum = Number.parseInt(field(148, 8), 8)
  if (field(257, 5) !== 'ustar' || sum !== sumOf(header) || !/^0?$/.test(field(156, 1)))
    throw new ArchiveError('The archive was altered, or another program wrote it.')
  const size = header[124] === 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(field(124, 12), 8)
  if (!Number.isSafeInteger(size) || size < 0) throw new ArchiveError('The archive has a file without a size.')
  return { name: field(0, 100), size }
}

/** Sums all bytes of a header, with the bytes of the sum itself as spaces. */
const sumOf = (header: Buffer): number =>
  header.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 0x20 : byte), 0)
