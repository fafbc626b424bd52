import { createHmac, hash } from 'node:crypto'

/** AWS credentials; they have a session token if they are temporary. */
export type AwsCredentials = { accessKeyId: string; secretAccessKey: string; sessionToken: string | null }

/** A request to sign, with all of its headers. Header names are in lower case; the path is as sent, without a query. */
export type SignedCall = { method: string; path: string; headers: Record<string, string>; body: Uint8Array }

/**
 * Signs a request; returns its headers with `authorization`, the date and the session token.
 * Source: AWS Signature Version 4, "Create a signed AWS API request"
 */
export function signCall(
  { method, path, headers, body }: SignedCall,
  { accessKeyId, secretAccessKey, sessionToken }: AwsCredentials,
  { region, service, at }: { region: string; service: string; at: Date },
): Record<string, string> {
  const stamp = at.toISOString().replace(/[-:]|\.\d+/g, '')
  const day = stamp.slice(0, 8)
  const all: Record<string, string> = {
    ...headers,
    'x-amz-date': stamp,
    ...(sessionToken === null ? {} : { 'x-amz-security-token': sessionToken }),
  }
  const names = Object.keys(all).toSorted()
  const lines = names.map((name) => `${name}:${all[name]!.trim().replace(/ +/g, ' ')}\n`)
  const canonical = [method, path, '', lines.join(''), names.join(';'), hash('sha256', body, 'hex')].join('\n')
  const scope = `${day}/${region}/${service}/aws4_request`
  const text = ['AWS4-HMAC-SHA256', stamp, scope, hash('sha256', canonical, 'hex')].join('\n')
  let key: Buffer = Buffer.from(`AWS4${secretAccessKey}`)
  for (const part of [day, region, service, 'aws4_request']) key = mac(key, part)
  const signature = mac(key, text).toString('hex')
  return {
    ...all,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names.join(';')}, Signature=${signature}`,
  }
}

const mac = (key: Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
