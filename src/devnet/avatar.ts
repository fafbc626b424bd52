import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'

/** Registers GET /devnet/avatar/:name.svg: a picture derived from a name, so that `imageSrc` works in development. */
export function avatar(server: FastifyInstance): void {
  server.get<{ Params: { file: string } }>('/devnet/avatar/:file', { schema: { hide: true } }, (request, reply) => {
    const name = request.params.file.replace(/\.svg$/, '').slice(0, 64)
    return reply
      .header('content-type', 'image/svg+xml')
      .header('x-content-type-options', 'nosniff')
      .header('content-security-policy', "default-src 'none'; style-src 'none'; sandbox")
      .header('cache-control', 'public, max-age=86400')
      .send(drawAvatar(name))
  })
}

const CELLS = 5
const CELL = 8
/** Wide enough that a round frame cuts off no cell. */
const MARGIN = 10

/** Draws 5 × 5 mirrored cells in one colour, derived from the hash of the name. */
function drawAvatar(name: string): string {
  const hash = createHash('sha256').update(name.toLowerCase()).digest()
  const hue = ((hash[0]! << 8) | hash[1]!) % 360
  const size = CELLS * CELL + 2 * MARGIN
  const cells = Array.from({ length: CELLS * CELLS }, (_, index) => ({
    row: Math.floor(index / CELLS),
    column: index % CELLS,
  }))
    .filter(({ row, column }) => hash[2 + row * 3 + Math.min(column, CELLS - 1 - column)]! % 2 === 0)
    .map(
      ({ row, column }) =>
        `<rect x="${MARGIN + column * CELL}" y="${MARGIN + row * CELL}" width="${CELL}" height="${CELL}"/>`,
    )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}" width="96" height="96" shape-rendering="crispEdges"><rect width="${size}" height="${size}" fill="hsl(${hue} 40% 92%)"/><g fill="hsl(${hue} 55% 42%)">${cells.join('')}</g></svg>`
}
