import {
  ApprovalRequired,
  ClientError,
  createClient,
  InvalidInput,
  Reverted,
  SignedOut,
  Unknown,
} from './dist/index.js'

/**
 * Uses the built client in whatever runtime imports this file.
 * @param {{ origin: string, token: string, me: string, token20: string }} of  the service, a user, a token contract
 * @returns {Promise<string[]>}  what a test compares
 */
export async function useClient({ origin, token, me, token20: address }) {
  const facts = []
  const wallet = createClient({ origin, token: () => token })
  const balance = () => wallet.read({ address, abi: 'balanceOf(address) public view returns (uint256)', args: [me] })
  const before = await balance()
  facts.push(`read ${typeof before}`, `me ${(await wallet.me()).address === me}`)

  // The service carries the write out, and its answer is lost.
  const keys = []
  const lossy = createClient({
    origin,
    token: () => token,
    random: () => 0,
    fetch: async (url, init) => {
      const response = await fetch(url, init)
      const key = new Headers(init.headers).get('idempotency-key')
      if (key === null || keys.push(key) > 1) return response
      await response.arrayBuffer()
      throw new TypeError('lost')
    },
  })
  const sent = await lossy.write({ address, abi: 'mint(address to, uint256 amount)', args: [me, 5n] })
  await sent.mined()
  facts.push(`tries ${keys.length}, keys ${new Set(keys).size}, minted ${(await balance()) - before}`)

  const errorOf = async (work) => {
    try {
      await work()
      return 'no error'
    } catch (error) {
      const kinds = { ApprovalRequired, InvalidInput, Reverted, SignedOut, Unknown }
      const [kind] = Object.entries(kinds).find(([, type]) => error instanceof type) ?? ['another']
      return `${kind} ${error.name} ${error.code} ${error instanceof ClientError}`
    }
  }
  const abi = 'transfer(address to, uint256 amount) returns (bool)'
  const silent = createClient({
    origin,
    token: () => token,
    fetch: () => Promise.reject(new TypeError('lost')),
    clock: { now: () => 0, sleep: async () => {} },
  })
  facts.push(
    await errorOf(() => createClient({ origin, token: () => 'wrong' }).me()),
    await errorOf(() => wallet.read({ address, abi: 'balanceOf(address) view returns (uint256)', args: ['nobody'] })),
    await errorOf(() => wallet.write({ address, abi, args: [address, 10n ** 30n] })),
    await errorOf(() => wallet.signMessage('I accept the terms.')),
    await errorOf(() => silent.write({ address, abi, args: [me, 1n] })),
  )
  facts.push(await followEvents())
  return facts

  /** Reads an event from a stream, cuts the stream, and reads the next one from another. */
  async function followEvents() {
    const opened = { pages: 0, streams: 0, cut: () => {} }
    let begun = () => {}
    const reader = createClient({
      origin,
      token: () => token,
      fetch: async (url, init) => {
        const isStream = new Headers(init.headers).get('accept') === 'text/event-stream'
        opened[isStream ? 'streams' : 'pages'] += 1
        const cable = new AbortController()
        const response = await fetch(url, { ...init, signal: AbortSignal.any([init.signal, cable.signal]) })
        if (isStream) {
          opened.cut = () => cable.abort()
          begun()
        }
        return response
      },
    })
    const isOpen = new Promise((done) => (begun = done))
    const wanted = []
    const got = []
    const write = async () => wanted.push((await wallet.write({ address, abi: 'mint(address to, uint256 amount)', args: [me, 1n] })).id) // prettier-ignore
    const reading = (async () => {
      for await (const { events } of reader.events({ cursor: 'now', types: ['transaction.submitted'] })) {
        got.push(...events.map(({ data }) => data.id))
        if (got.length >= 2) return
        opened.cut()
        await write()
      }
    })()
    await isOpen
    await write()
    await reading
    return `events ${got.length}, in order ${String(got) === String(wanted)}, pages ${opened.pages}, streams ${opened.streams}`
  }
}
