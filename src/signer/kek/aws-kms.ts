import { signCall, type AwsCredentials } from './aws-signature.ts'
import { KekUnavailable, NotItsOwn, type Kek, type KekSetting } from './provider.ts'
import { readSecret } from './secret.ts'
import { readWithSecret, writeWithSecret } from './secret-json.ts'
import { askService, PATIENCE, readCa, type Patience, type ServiceAnswer } from './service.ts'
import { systemClock } from '../../clock.ts'

type AwsKmsSetting = Extract<KekSetting, { provider: 'aws-kms' }>

/**
 * The name of the encryption context's one pair. KMS authenticates it; its value is the additional data in base64, because it must
 * be text.
 */
const CONTEXT = 'chatelaine'
const ALGORITHM = 'SYMMETRIC_DEFAULT'

/**
 * Opens a symmetric key in AWS KMS. Wrapped bytes are the CiphertextBlob, which names the key and its version. So bytes that were
 * wrapped before KMS rotated the key can be unwrapped. The credentials are read at each use.
 * Source: AWS KMS API reference, Encrypt and Decrypt
 */
export function openAwsKms(setting: AwsKmsSetting, patience: Patience = PATIENCE): Kek {
  const { arn } = setting.uri
  return {
    provider: 'aws-kms',
    isVersioned: true,
    async wrap(dek, aad) {
      const fields = { KeyId: arn, EncryptionAlgorithm: ALGORITHM, EncryptionContext: contextOf(aad) }
      const { json } = await ask('Encrypt', () => writeWithSecret({ field: 'Plaintext', bytes: dek }, fields))
      const { CiphertextBlob: blob } = json
      if (typeof blob !== 'string' || !/^[A-Za-z0-9+/]{20,8192}={0,2}$/.test(blob)) throw withoutIt()
      return Buffer.from(blob, 'base64')
    },
    async unwrap(wrapped, aad) {
      const fields = {
        CiphertextBlob: wrapped.toString('base64'),
        EncryptionContext: contextOf(aad),
        KeyId: arn,
        EncryptionAlgorithm: ALGORITHM,
      }
      const { secret } = await ask('Decrypt', () => Buffer.from(JSON.stringify(fields)))
      if (secret === null) throw withoutIt()
      return secret
    },
  }

  async function ask(operation: 'Encrypt' | 'Decrypt', body: () => Buffer) {
    const { origin, host } = setting.uri.endpoint
    const service = { name: 'AWS KMS', origin: new URL(origin), socketPath: null, ca: readCa(setting.caFile, setting.name) } // prettier-ignore
    const make = () => {
      const call = {
        method: 'POST' as const,
        path: '/',
        headers: { host, 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': `TrentService.${operation}` },
        body: body(),
      }
      const signing = { region: setting.uri.region, service: 'kms', at: new Date(systemClock.wall()) }
      return { ...call, headers: signCall(call, readCredentials(setting), signing) }
    }
    const isBusy = (answer: ServiceAnswer) => /^(Throttling|LimitExceeded|TooManyRequests|RequestLimit)/.test(errorOf(answer)) // prettier-ignore
    const answer = await askService(service, make, { patience, isBusy })
    if (answer.status !== 200) throw refusalOf(errorOf(answer), answer.status, setting)
    const read = readWithSecret(answer.body, 'Plaintext')
    const json = (read.json ?? {}) as Record<string, unknown>
    if (json.KeyId !== arn || json.EncryptionAlgorithm !== ALGORITHM) {
      read.secret?.fill(0)
      throw json.KeyId === undefined ? withoutIt() : new KekUnavailable('AWS KMS responded for another key or algorithm than requested.') // prettier-ignore
    }
    return { json, secret: read.secret }
  }
}

const contextOf = (aad: Buffer): Record<string, string> => ({ [CONTEXT]: aad.toString('base64') })

const withoutIt = (): KekUnavailable => new KekUnavailable('The response of AWS KMS is incomplete.')

/** Returns only the name of an error, in letters; its message may repeat what was sent. */
function errorOf({ status, body }: ServiceAnswer): string {
  if (status === 200) return ''
  try {
    const { __type: type } = JSON.parse(body.toString('utf8')) as { __type?: unknown }
    return /(?:^|#)([A-Za-z]{1,64})$/.exec(String(type))?.[1] ?? ''
  } catch {
    return ''
  }
}

function refusalOf(error: string, status: number, { name }: AwsKmsSetting): Error {
  const file = `${name}_CREDENTIALS_FILE`
  switch (error) {
    case 'InvalidCiphertextException':
    case 'IncorrectKeyException':
      return new NotItsOwn()
    case 'DisabledException':
    case 'KMSInvalidStateException':
      return new KekUnavailable(`The key in AWS KMS is disabled, or scheduled for deletion (${error}).`)
    case 'NotFoundException':
      return new KekUnavailable(`AWS KMS does not have the key in the setting (${error}).`)
    case 'InvalidKeyUsageException':
      return new KekUnavailable(`The key in AWS KMS is not a symmetric encryption key (${error}).`)
    case 'AccessDeniedException':
      return new KekUnavailable(`AWS KMS denies access: the credentials in ${file} need kms:Encrypt and kms:Decrypt on the key (${error}).`) // prettier-ignore
    case 'ExpiredTokenException':
    case 'UnrecognizedClientException':
    case 'InvalidClientTokenId':
    case 'InvalidSignatureException':
    case 'IncompleteSignatureException':
    case 'MissingAuthenticationTokenException':
      return new KekUnavailable(`AWS KMS denies access: the credentials in ${file} are wrong or have expired, or the clock of this machine is wrong (${error}).`) // prettier-ignore
    default:
      return new KekUnavailable(`AWS KMS responded with status ${status}${error === '' ? '' : ` (${error})`}.`)
  }
}

/** Reads a profile of a shared credentials file. @throws KekUnavailable  naming the setting, never the content */
function readCredentials({ credentialsFile, uri: { profile }, name }: AwsKmsSetting): AwsCredentials {
  const setting = `${name}_CREDENTIALS_FILE`
  const bytes = readSecret(credentialsFile, setting)
  const found = new Map<string, string>()
  let isInside = false
  for (const line of bytes.toString('utf8').split(/\r?\n/)) {
    const [, section] = /^\s*\[\s*(.*?)\s*\]\s*$/.exec(line) ?? []
    if (section !== undefined) isInside = section === profile
    const [, key, value] = /^\s*(aws_\w+)\s*=\s*([\x21-\x7e]+)\s*$/.exec(line) ?? []
    if (isInside && key !== undefined) found.set(key, value!)
  }
  bytes.fill(0)
  const [accessKeyId, secretAccessKey] = [found.get('aws_access_key_id'), found.get('aws_secret_access_key')]
  if (accessKeyId === undefined || secretAccessKey === undefined)
    throw new KekUnavailable(`${setting} has no aws_access_key_id and aws_secret_access_key under [${profile}].`)
  return { accessKeyId, secretAccessKey, sessionToken: found.get('aws_session_token') ?? null }
}
