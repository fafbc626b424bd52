import { createHash, createHmac, randomUUID } from 'node:crypto'
import type { Certificate } from '../certificate.ts'
import { sameBytes, standIn, strictBase64, versionedKey, type Received, type Reply } from './server.ts'

const REGION = 'eu-central-1'
const MAX_SKEW_MS = 300_000

/** Stands in for AWS KMS: recomputes Signature V4 by code of its own, checks every byte of a call. AWS itself was never asked. */
export async function awsKmsStandIn(
  t: { after: (end: () => void | Promise<void>) => void },
  { tls, sessionToken = 'session/token+of==' }: { tls?: Certificate; sessionToken?: string | null } = {},
) {
  const id = randomUUID()
  const arn = `arn:aws:kms:${REGION}:111122223333:key/${id}`
  const key = versionedKey()
  const secrets = new Map([['AKIASTANDIN', 'secret/of+the/stand-in']])
  const server = await standIn(t, { ...(tls === undefined ? {} : { tls }), answer, refuse })
  return {
    ...server,
    ...{ arn, key, secrets },
    uri: `aws-kms:${arn}?endpoint=${server.origin}`,
    credentials: (accessKeyId = 'AKIASTANDIN', secret = secrets.get(accessKeyId) ?? 'unknown') =>
      `# of the stand-in\n[other]\naws_access_key_id = NOTTHIS\naws_secret_access_key = neither\n\n[default]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key=${secret}\n${sessionToken === null ? '' : `aws_session_token = ${sessionToken}\n`}`,
  }

  function answer(asked: Received, fault: (what: string) => void, how: string | null): Reply {
    const { headers } = asked
    const [, operation] = /^TrentService\.(Encrypt|Decrypt)$/.exec(headers['x-amz-target'] ?? '') ?? []
    if (asked.method !== 'POST' || asked.path !== '/' || operation === undefined)
      return error('UnknownOperationException')
    const stamp = headers['x-amz-date'] ?? ''
    const at = Date.parse(stamp.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'))
    if (!(Math.abs(Date.now() - at) < MAX_SKEW_MS)) return error('InvalidSignatureException')
    const [, accessKeyId] = /Credential=([A-Z]+)\//.exec(headers.authorization ?? '') ?? []
    const secret = secrets.get(accessKeyId ?? '')
    if (secret === undefined) return error('UnrecognizedClientException')
    if (headers.authorization !== authorizationOf(asked, { accessKeyId: accessKeyId!, secret, stamp }))
      return error('InvalidSignatureException')
    const said = JSON.parse(asked.body.toString('utf8')) as Record<string, unknown>
    const context = said.EncryptionContext as { chatelaine: string }
    const shared = { KeyId: arn, EncryptionAlgorithm: 'SYMMETRIC_DEFAULT' }
    const bound = { EncryptionContext: { chatelaine: context.chatelaine } }
    sameBytes(
      asked,
      {
        headers: {
          host: server.origin.replace(/^https?:\/\//, ''),
          'content-type': 'application/x-amz-json-1.1',
          'x-amz-target': `TrentService.${operation}`,
          'x-amz-date': stamp,
          ...(sessionToken === null ? {} : { 'x-amz-security-token': sessionToken }),
          authorization: headers.authorization!,
        },
        body:
          operation === 'Encrypt'
            ? { Plaintext: said.Plaintext, KeyId: arn, EncryptionAlgorithm: 'SYMMETRIC_DEFAULT', ...bound }
            : { CiphertextBlob: said.CiphertextBlob, ...bound, ...shared },
      },
      fault,
    )
    const aad = Buffer.from(JSON.stringify([arn, strictBase64(context.chatelaine, fault).toString('hex')]))
    const told = how === 'answers for another key' ? { ...shared, KeyId: arn.replace(/key\/.*/, `key/${randomUUID()}`) } : shared // prettier-ignore
    if (operation === 'Encrypt') {
      const sealed = key.seal(strictBase64(said.Plaintext, fault), aad)
      const head = Buffer.from(`${id}${String(key.newest()).padStart(4, '0')}`)
      return { status: 200, json: { ...told, CiphertextBlob: Buffer.concat([head, sealed]).toString('base64') } }
    }
    const blob = strictBase64(said.CiphertextBlob, fault)
    const named = blob.subarray(0, 36).toString('latin1')
    if (/^[\da-f-]{36}$/.test(named) && named !== id) return error('IncorrectKeyException')
    const opened = key.open(Number(blob.subarray(36, 40).toString('latin1')), blob.subarray(40), aad)
    return opened === null
      ? error('InvalidCiphertextException')
      : { status: 200, json: { ...told, Plaintext: opened.toString('base64') } }
  }

  function refuse(how: string): Reply {
    const names: Record<string, string> = {
      throttles: 'ThrottlingException',
      denies: 'AccessDeniedException',
      'is disabled': 'DisabledException',
      'has no such key': 'NotFoundException',
    }
    return error(names[how]!)
  }
}

const error = (name: string): Reply => ({
  status: 400,
  json: { __type: `com.amazonaws.kms#${name}`, message: 'AKIASTANDIN secret/of+the/stand-in is repeated here' },
})

/** From the description of Signature Version 4, step by step; all headers but those of the connection are signed. */
function authorizationOf(
  { method, path, headers, body }: Received,
  { accessKeyId, secret, stamp }: { accessKeyId: string; secret: string; stamp: string },
): string {
  const signed = Object.entries(headers)
    .filter(([name]) => !['authorization', 'content-length', 'connection'].includes(name))
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  let request = `${method}\n${path}\n\n`
  for (const [name, value] of signed) request += `${name}:${value}\n`
  const list = signed.map(([name]) => name).join(';')
  request += `\n${list}\n${createHash('sha256').update(body).digest('hex')}`
  const scope = [stamp.slice(0, 8), REGION, 'kms', 'aws4_request']
  const toSign = `AWS4-HMAC-SHA256\n${stamp}\n${scope.join('/')}\n${createHash('sha256').update(request).digest('hex')}`
  const derived = scope.reduce<Buffer>(
    (from, part) => createHmac('sha256', from).update(part).digest(),
    Buffer.from(`AWS4${secret}`, 'utf8'),
  )
  const signature = createHmac('sha256', derived).update(toSign).digest('hex')
  return `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope.join('/')}, SignedHeaders=${list}, Signature=${signature}`
}
