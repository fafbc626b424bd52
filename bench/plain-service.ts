/**
 * What one writes in an afternoon: Fastify, viem with its defaults, keys in memory, no users, no tokens, no storage.
 * The baseline of `bench/reads.ts` and `bench/writes.ts`. PORT 0 takes any; prints its address as one line.
 *   RPC_URL        the node
 *   KEYS           private keys, comma-separated; `account` of a write is an index into them
 *   PLAIN_GAS      `latest` estimates gas at the latest block; otherwise viem's default, which runs on pending state
 */
import Fastify from 'fastify'
import {
  createPublicClient,
  createWalletClient,
  defineChain,
  encodeFunctionData,
  http,
  nonceManager,
  parseAbiItem,
  type AbiFunction,
  type Hex,
} from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

const rpcUrl = process.env.RPC_URL!
const chain = defineChain({
  id: Number(process.env.CHAIN_ID ?? 31337),
  name: 'bench',
  nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
  rpcUrls: { default: { http: [rpcUrl] } },
})
const node = createPublicClient({ chain, transport: http() })
const wallet = createWalletClient({ chain, transport: http() })
const accounts = (process.env.KEYS ?? '')
  .split(',')
  .filter((key) => key !== '')
  .map((key) => privateKeyToAccount(key as Hex, { nonceManager }))

type Call = { address: Hex; abi: string; args?: string[] }
const abiOf = (text: string) =>
  parseAbiItem(`function ${text}`.replace(/^function function /, 'function ')) as AbiFunction
const plain = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, inner: unknown) => (typeof inner === 'bigint' ? inner.toString() : inner)))

const server = Fastify()

server.post<{ Body: Call }>('/read', async ({ body: { address, abi, args = [] } }) => {
  const item = abiOf(abi)
  return { response: plain(await node.readContract({ address, abi: [item], functionName: item.name, args })) }
})

server.get<{ Params: { address: Hex } }>('/balance/:address', async ({ params }) => ({
  balance: (await node.getBalance({ address: params.address })).toString(),
}))

server.post<{ Body: Call & { account?: number; value?: string } }>('/write', async ({ body }) => {
  const { address, abi, args = [], account: index = 0, value = '0' } = body
  const item = abiOf(abi)
  const account = accounts[index]!
  const call = { to: address, data: encodeFunctionData({ abi: [item], args }), value: BigInt(value) }
  if (process.env.PLAIN_GAS !== 'latest') return { hash: await wallet.sendTransaction({ account, ...call }) }
  const gas = await node.estimateGas({ account, ...call, blockTag: 'latest' })
  return { hash: await wallet.sendTransaction({ account, ...call, gas }) }
})

console.log(await server.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) }))
process.on('SIGTERM', () => process.exit())
