import type { Address, CustomSource, Hex, LocalAccount } from 'viem'
import { toAccount } from 'viem/accounts'
import { ClientError, createClient, type ClientOptions, type Client } from '../index.ts'

/**
 * Creates a viem account of the signed-in user: it signs messages and typed data through the service (x402, SIWE,
 * XMTP). It does not sign transactions, because the service sets nonce and fees: use `write` and `send` of the client.
 * @param wallet  a client, or the options of one
 * @throws SignedOut  if there is no session
 */
export async function viemAccount(
  wallet: Pick<Client, 'me' | 'signMessage' | 'signTypedData'> | ClientOptions,
): Promise<LocalAccount> {
  const client = 'me' in wallet ? wallet : createClient(wallet)
  const { address } = await client.me()
  const source: CustomSource = {
    address: address as Address,
    async signMessage({ message }) {
      const input = typeof message === 'string' ? message : { hex: hexOf(message.raw) }
      return (await client.signMessage(input)).signature
    },
    async signTypedData(typedData) {
      const { domain, types, primaryType, message } = typedData as unknown as Parameters<Client['signTypedData']>[0]
      return (await client.signTypedData({ domain, types, primaryType, message })).signature
    },
    async signTransaction() {
      throw new ClientError({
        code: 'unsupported',
        message:
          'This account signs no transactions: the service chooses nonce and fees. Send with `write` or `send` of the client.',
        userMessage: 'The application cannot send this. Nothing was sent.',
      })
    },
  }
  return toAccount(source)
}

const hexOf = (raw: Hex | Uint8Array): Hex =>
  typeof raw === 'string' ? raw : `0x${Array.from(raw, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
