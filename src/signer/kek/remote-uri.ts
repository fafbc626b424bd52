/** A key of Vault's transit engine: the address of Vault or its agent, and the key's path. */
export type VaultUri = {
  origin: URL
  socketPath: string | null
  mount: string
  key: string
  namespace: string | null
}

/** A symmetric key of AWS KMS, by its ARN. */
export type AwsKmsUri = {
  arn: string
  region: string
  /** the region's endpoint, or the one that the setting names, such as a VPC or FIPS endpoint */
  endpoint: URL
  /** the profile in the credentials file */
  profile: string
}

/** A symmetric key of Google Cloud KMS, by its resource name. */
export type GcpKmsUri = {
  /** projects/…/locations/…/keyRings/…/cryptoKeys/… */
  key: string
  endpoint: URL
}

/**
 * Parses `vault:https://HOST:PORT/v1/MOUNT/keys/NAME` or `vault+unix:/SOCKET:/v1/MOUNT/keys/NAME`, each with an optional
 * `?namespace=`.
 * @throws Error  a sentence
 */
export function readVaultUri(text: string): VaultUri {
  const [, socketPath = null, path] = /^vault\+unix:(\/[^:?#]+):(\/[^#]*)$/.exec(text) ?? []
  if (text.startsWith('vault+unix:') && socketPath === null) throw new Error('it is not vault+unix:/SOCKET:/v1/MOUNT/keys/NAME') // prettier-ignore
  const url = socketPath === null ? readOrigin(text.slice('vault:'.length)) : new URL(`http://localhost${path}`)
  const [, mount, key] = /^\/v1\/([\w./-]+)\/keys\/([\w.-]+)$/.exec(url.pathname) ?? []
  if (mount === undefined || key === undefined) throw new Error('its path is not /v1/MOUNT/keys/NAME')
  for (const name of url.searchParams.keys()) if (name !== 'namespace') throw new Error(`its part ${name} is not known`)
  if (url.hash !== '' || url.searchParams.getAll('namespace').length > 1) throw new Error('it says more than one key')
  const namespace = url.searchParams.get('namespace')
  if (namespace !== null && !/^[\w./-]+$/.test(namespace)) throw new Error('its namespace cannot be sent as a header')
  return { origin: new URL(url.origin), socketPath, mount, key, namespace }
}

const DOMAINS: Record<string, string> = {
  aws: 'amazonaws.com',
  'aws-us-gov': 'amazonaws.com',
  'aws-cn': 'amazonaws.com.cn',
}

/**
 * Parses `aws-kms:arn:aws:kms:REGION:ACCOUNT:key/ID`, with optional `?endpoint=https://…` and `?profile=`. Aliases are rejected,
 * because an alias may later name another key.
 * @throws Error  a sentence
 */
export function readAwsKmsUri(text: string): AwsKmsUri {
  const [, arn, partition, region, query = ''] = /^aws-kms:(arn:(aws[a-z-]*):kms:([a-z0-9-]+):\d{12}:key\/[\w-]+)(?:\?(.*))?$/.exec(text) ?? [] // prettier-ignore
  if (arn === undefined) throw new Error('it is not aws-kms:arn:aws:kms:REGION:ACCOUNT:key/ID, the ARN of a key and not of an alias') // prettier-ignore
  const parts = new URLSearchParams(query)
  for (const name of parts.keys()) {
    if (name !== 'endpoint' && name !== 'profile') throw new Error(`its part ${name} is not known`)
    if (parts.getAll(name).length > 1) throw new Error(`it says ${name} twice`)
  }
  const domain = DOMAINS[partition!]
  const named = parts.get('endpoint') ?? (domain === undefined ? null : `https://kms.${region}.${domain}`)
  if (named === null) throw new Error('it is of a partition whose hosts are not known: add endpoint=')
  const endpoint = readOrigin(named)
  if (endpoint.pathname !== '/' || endpoint.search !== '') throw new Error('its endpoint has a path')
  return { arn, region: region!, endpoint, profile: parts.get('profile') ?? 'default' }
}

/**
 * Parses `gcp-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K`, with an optional `?endpoint=https://…`.
 * @throws Error  a sentence
 */
export function readGcpKmsUri(text: string): GcpKmsUri {
  const [, key, query = ''] = /^gcp-kms:(projects\/[\w.:-]+\/locations\/[\w-]+\/keyRings\/[\w-]+\/cryptoKeys\/[\w-]+)(?:\?(.*))?$/.exec(text) ?? [] // prettier-ignore
  if (key === undefined) throw new Error('it is not gcp-kms:projects/P/locations/L/keyRings/R/cryptoKeys/K')
  const parts = new URLSearchParams(query)
  for (const name of parts.keys()) if (name !== 'endpoint') throw new Error(`its part ${name} is not known`)
  if (parts.getAll('endpoint').length > 1) throw new Error('it says endpoint twice')
  const endpoint = readOrigin(parts.get('endpoint') ?? 'https://cloudkms.googleapis.com')
  if (endpoint.pathname !== '/' || endpoint.search !== '') throw new Error('its endpoint has a path')
  return { key, endpoint }
}

/**
 * Parses an https address. http is allowed only for this machine, where a proxy or an agent of the service may listen.
 * @throws Error  a sentence
 */
export function readOrigin(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null
  if (url === null || !['https:', 'http:'].includes(url.protocol)) throw new Error('it names no https:// address')
  if (url.username !== '' || url.password !== '') throw new Error('its address holds a name or a password')
  if (url.protocol === 'http:' && !isLoopback(url.hostname))
    throw new Error('its address is http:, which is for this machine only (127.0.0.1, [::1], localhost)')
  return url
}

const isLoopback = (host: string): boolean => /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])$/.test(host)
