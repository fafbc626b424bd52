import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { CHAIN_ID } from '../kit/signer.ts'

/** A node that counts transactions; `counts` by lower-case address, `latest` and `pending`. */
export async function countingNode(t: TestContext, counts: Record<string, [latest: string, pending: string]>) {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text) => (body += text))
    request.on('end', () => {
      const calls = JSON.parse(body) as { id: number; method: string; params: [string, string] }[]
      const answers = calls.map(({ id, method, params: [address, tag] }) => ({
        id,
        result:
          method === 'eth_chainId'
            ? `0x${CHAIN_ID.toString(16)}`
            : (counts[address] ?? ['0x0', '0x0'])[tag === 'pending' ? 1 : 0],
      }))
      response.end(JSON.stringify(answers.toReversed()))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/key-S3CRET`
}
