import type { Profiler } from 'node:inspector/promises'

/** Parts of a request by the file that runs, or that called what runs. The first that matches counts. */
const parts: [part: string, pattern: RegExp][] = [
  ['token check', /src\/http\/(bearer|caller|limits)/],
  ['ABI: text, arguments, result', /src\/abi\/|src\/contracts\/parsed|@noble\/hashes|node_modules\/viem/],
  ['collecting, sharing, node', /src\/chain\/|src\/follower\/|node:_http_client|node:_http_agent/],
  ['metrics', /prometheus|src\/telemetry/],
  [
    'reading and checking JSON',
    /secure-json-parse|content-type-parser|src\/http\/listener|fastify\/lib\/validation|ajv/,
  ],
  ['writing JSON', /fast-json-stringify|fastify\/lib\/(serialize|schema-controller)/],
  ['the verb', /src\/(contracts|balances|tokens|users)\//],
  ['CORS', /@fastify\/cors|src\/server/],
  ['Fastify', /node_modules\/(fastify|find-my-way|avvio|fast-|@fastify)/],
  ['the rest of the program', /src\/|node_modules/],
]

/** @returns what share of the time that the thread was busy went into each part, most first */
export function partsOf({ nodes, samples, timeDeltas }: Profiler.Profile): { part: string; share: number }[] {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parentOf = new Map(nodes.flatMap(({ id, children }) => (children ?? []).map((child) => [child, id] as const)))
  const named = new Map<number, string>()

  function nameOf(id: number): string {
    const known = named.get(id)
    if (known !== undefined) return known
    const name = look(id)
    named.set(id, name)
    return name
  }

  function look(id: number): string {
    const { functionName, url } = byId.get(id)!.callFrame
    // The inspector stops the thread while it starts to look.
    if (functionName === '(idle)' || url === 'node:inspector') return '(idle)'
    if (functionName === '(garbage collector)') return 'garbage collection'
    if (/^write(Utf8|Latin1)String$|^writev$|^writeBuffer$/.test(functionName)) return 'writing to sockets (kernel)'
    const found =
      url.startsWith('file:') || url.startsWith('node:_http')
        ? parts.find(([, pattern]) => pattern.test(url))
        : undefined
    if (found !== undefined) return found[0]
    const parent = parentOf.get(id)
    // Code of Node.js itself belongs to who called it; what nobody called is the HTTP server.
    return parent === undefined ? 'HTTP server and event loop (Node.js)' : nameOf(parent)
  }

  const times = new Map<string, number>()
  let busy = 0
  for (const [index, id] of (samples ?? []).entries()) {
    const name = nameOf(id)
    if (name === '(idle)') continue
    const micros = timeDeltas![index]!
    times.set(name, (times.get(name) ?? 0) + micros)
    busy += micros
  }
  return [...times].map(([part, micros]) => ({ part, share: micros / busy })).toSorted((a, b) => b.share - a.share)
}
