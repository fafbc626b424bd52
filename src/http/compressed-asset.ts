import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { StaticAsset } from './asset.ts'

const ENCODINGS = ['br', 'gzip'] as const

/** A large file of the pages, compressed once in each form. */
export type CompressedAsset = StaticAsset & { tag: string; forms: Record<(typeof ENCODINGS)[number], Buffer> }

/** 4 MB take 0.15 s of a thread beside the event loop for each form; brotli at its best would take 8 s for a tenth less. */
export async function compressed(asset: StaticAsset): Promise<CompressedAsset> {
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(asset.content, quality),
    promisify(gzip)(asset.content),
  ])
  return { ...asset, tag: asset.path.slice(asset.path.indexOf('=') + 1), forms: { br, gzip: gz } }
}

/**
 * Sends it as the client takes it. By its own name, which has its hash, a copy is good forever; by another one it is asked for again,
 * and not sent where it is the same (RFC 9110 §13.1.2).
 */
export function sendCompressed(
  { headers, url }: FastifyRequest,
  reply: FastifyReply,
  { path, type, content, tag, forms }: CompressedAsset,
): FastifyReply {
  const encoding = ENCODINGS.find((name) => takes(headers['accept-encoding'], name))
  // Each form is another representation (RFC 9110 §8.8.3).
  const etag = `"${tag}${encoding === undefined ? '' : `-${encoding}`}"`
  reply
    .header('vary', 'Accept-Encoding')
    .header('etag', etag)
    .header('cache-control', url === path ? 'public, max-age=31536000, immutable' : 'no-cache')
  if ((headers['if-none-match'] ?? '').split(',').some((one) => one.trim().replace(/^W\//, '') === etag))
    return reply.code(304).send()
  reply.header('content-type', type)
  return encoding === undefined ? reply.send(content) : reply.header('content-encoding', encoding).send(forms[encoding])
}

/** Whether a client names an encoding, and not with a weight of 0 (RFC 9110 §12.5.3). */
function takes(accepted: string | string[] | undefined, encoding: string): boolean {
  for (const one of String(accepted ?? '').split(',')) {
    const [name = '', ...parameters] = one.split(';').map((part) => part.trim().toLowerCase())
    if (name === encoding) return !parameters.some((part) => /^q=0(\.0*)?$/.test(part))
  }
  return false
}
