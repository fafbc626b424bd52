import type { Hex } from '../wire.ts'
import { invalidParams, unsupported } from './errors.ts'
import type { WalletNetwork } from './network.ts'
import { objectOf, quantityOf, toQuantity } from './params.ts'

type SignedIn = { address: Hex; capabilities: Record<string, unknown> }

/**
 * Signs in, and signs the application's sign-in message if it requests one: `wallet_connect` (ERC-7846) with the
 * capability `signInWithEthereum`.
 */
export async function walletConnect(
  params: readonly unknown[],
  network: WalletNetwork,
): Promise<{ accounts: SignedIn[] }> {
  const { version, capabilities = {} } = objectOf(params[0] ?? {}, 'request')
  if (version !== undefined && version !== '1') throw invalidParams('`version` must be "1".')
  const { signInWithEthereum, ...others } = objectOf(capabilities, 'capabilities')
  for (const [name, one] of Object.entries(others))
    if ((one as { optional?: unknown }).optional !== true) throw unsupported(`the capability ${name.slice(0, 64)}`)
  const wanted = signInWithEthereum === undefined ? null : objectOf(signInWithEthereum, 'signInWithEthereum')
  const address = await network.signIn()
  if (wanted === null) return { accounts: [{ address, capabilities: {} }] }
  const message = signInMessage(wanted, { address, chainId: network.chainId })
  const signature = await network.requests.write(
    '/v1/signatures/message',
    { message },
    {},
    (signed: { signature: Hex }) => signed.signature,
  )
  return { accounts: [{ address, capabilities: { signInWithEthereum: { message, signature } } }] }
}

/** Formats a sign-in message. Source: ERC-4361 */
function signInMessage(
  fields: Record<string, unknown>,
  { address, chainId }: { address: Hex; chainId: number },
): string {
  const page = (globalThis as { location?: { host: string; href: string } }).location
  const text = (name: string, otherwise?: string): string | undefined => {
    const value = fields[name] ?? otherwise
    if (value !== undefined && (typeof value !== 'string' || /[\r\n]/.test(value)))
      throw invalidParams(`\`${name}\` is not a line of text.`)
    return value
  }
  const required = (name: string, otherwise?: string): string => {
    const value = text(name, otherwise)
    if (value === undefined) throw invalidParams(`\`${name}\` is missing.`)
    return value
  }
  if (quantityOf(fields.chainId ?? toQuantity(chainId), 'chainId') !== BigInt(chainId))
    throw invalidParams(`The wallet is on network ${chainId}.`)
  const statement = text('statement')
  const line = (label: string, value: string | undefined): string[] => (value === undefined ? [] : [`${label}: ${value}`]) // prettier-ignore
  const { resources } = fields
  if (resources !== undefined && !Array.isArray(resources)) throw invalidParams('`resources` is not a list.')
  return [
    `${text('scheme') === undefined ? '' : `${text('scheme')}://`}${required('domain', page?.host)} wants you to sign in with your Ethereum account:`, // prettier-ignore
    address,
    '',
    ...(statement === undefined ? [''] : [statement, '']),
    `URI: ${required('uri', page?.href)}`,
    `Version: ${required('version', '1')}`,
    `Chain ID: ${chainId}`,
    `Nonce: ${required('nonce')}`,
    `Issued At: ${required('issuedAt', new Date().toISOString())}`,
    ...line('Expiration Time', text('expirationTime')),
    ...line('Not Before', text('notBefore')),
    ...line('Request ID', text('requestId')),
    ...(resources === undefined ? [] : ['Resources:', ...(resources as unknown[]).map((one) => `- ${String(one)}`)]),
  ].join('\n')
}
