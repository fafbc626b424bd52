import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { KekUnavailable } from './provider.ts'
import { systemClock } from '../../clock.ts'

/** A key service over HTTP: its address, and its name in error messages. */
export type Service = {
  /** for error messages: `Vault`, `AWS KMS` */
  name: string
  /** scheme, host and port; `http://localhost` for a Unix socket */
  origin: URL
  socketPath: string | null
  /** certificates in PEM that are trusted instead of the system’s */
  ca: Buffer | null
}

/** One request. Its body is zeroed after the answer, because it may contain a data key. */
export type ServiceRequest = {
  method: 'GET' | 'POST'
  /** absolute, with its query */
  path: string
  headers: Record<string, string>
  body: Buffer
}

export type ServiceAnswer = { status: number; body: Buffer }

/** Time-outs; only tests use other values. */
export type Patience = {
  /** for one answer, from the connection to its last byte */
  answerMs: number
  /** before the second attempt, twice that before the third, each reduced by up to half at random */
  pauseMs: number
}

export const PATIENCE: Patience = { answerMs: 5_000, pauseMs: 200 }
const MAX_ATTEMPTS = 3
/** A wrapped data key takes a few hundred bytes. */
const MAX_ANSWER_BYTES = 65_536

/**
 * Sends a request to a key service. Wrapping and unwrapping may safely run twice, so a request without an answer, or with a
 * temporary error, is retried. Redirects are not followed, because the request is meant only for the configured host.
 * @param make    builds the request of each attempt, because tokens are renewed and signatures are dated
 * @param isBusy  recognises a temporary error that the status does not show
 * @throws KekUnavailable
 */
export async function askService(
  service: Service,
  make: () => ServiceRequest | Promise<ServiceRequest>,
  { patience = PATIENCE, isBusy = () => false }: { patience?: Patience; isBusy?: (answer: ServiceAnswer) => boolean } = {}, // prettier-ignore
): Promise<ServiceAnswer> {
  for (let attempt = 1; ; attempt++) {
    const request = await make()
    try {
      const answer = await askOnce(service, request, patience)
      const failure = isBusy(answer) ? throttled(service) : whyLater(service, answer)
      if (failure === null) return answer
      throw failure
    } catch (error) {
      if (!(error instanceof Later) || attempt === MAX_ATTEMPTS) throw error
    } finally {
      request.body.fill(0)
    }
    await systemClock.sleep(patience.pauseMs * 2 ** (attempt - 1) * (0.5 + Math.random() / 2))
  }
}

/** An error that may not occur on another attempt. */
class Later extends KekUnavailable {}

const throttled = ({ name }: Service): Later =>
  new Later(`${name} refuses for now, because it was asked too often (throttled).`)

function whyLater(service: Service, { status }: ServiceAnswer): Later | null {
  if (status === 429) return throttled(service)
  if (status >= 500) return new Later(`${service.name} failed: it answered with status ${status}.`)
  return null
}

function askOnce(service: Service, { method, path, headers, body }: ServiceRequest, { answerMs }: Patience) {
  const { name, origin, socketPath, ca } = service
  return new Promise<ServiceAnswer>((resolve, reject) => {
    const options: https.RequestOptions = {
      method,
      path,
      headers: { ...headers, 'content-length': String(body.length), connection: 'close' },
      // Do not use the shared agents: environment settings could route them through a proxy.
      agent: false,
      setDefaultHeaders: true,
      ...(socketPath === null ? { host: bare(origin.hostname), port: origin.port } : { socketPath }),
    }
    const call =
      origin.protocol === 'https:'
        ? // Verify certificates whatever NODE_TLS_REJECT_UNAUTHORIZED says.
          https.request({ ...options, rejectUnauthorized: true, minVersion: 'TLSv1.2', ...(ca === null ? {} : { ca }) })
        : http.request(options)
    const timer = systemClock.after(answerMs, () => give(new Later(`${name} does not answer.`)))
    const chunks: Buffer[] = []
    let length = 0
    call.on('response', (answer) => {
      const status = answer.statusCode!
      if (status >= 300 && status < 400)
        return give(new KekUnavailable(`${name} answered with a redirect (${status}), which is not followed: name the host that answers itself.`)) // prettier-ignore
      answer.on('data', (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length > MAX_ANSWER_BYTES) give(new KekUnavailable(`${name} answered with more than ${MAX_ANSWER_BYTES} bytes.`)) // prettier-ignore
      })
      answer.on('end', () => {
        if (!answer.complete) return give(new Later(`${name} broke off its answer.`))
        timer.cancel()
        resolve({ status, body: Buffer.concat(chunks) })
        for (const chunk of chunks) chunk.fill(0)
      })
      answer.on('error', () => give(new Later(`${name} broke off its answer.`)))
    })
    call.on('error', (error: NodeJS.ErrnoException) => give(notReached(name, error)))
    call.end(body)

    function give(failure: KekUnavailable): void {
      timer.cancel()
      for (const chunk of chunks) chunk.fill(0)
      reject(failure)
      call.destroy()
    }
  })
}

/** Reports an error code of the system or of TLS; never what was sent. */
function notReached(name: string, { code }: NodeJS.ErrnoException): KekUnavailable {
  const said = /^[A-Z0-9_]{1,64}$/.exec(code ?? '')?.[0] ?? 'unknown'
  return /CERT|SIGNATURE|ISSUER|ALTNAME|SSL|TLS/.test(said)
    ? new KekUnavailable(`${name} is not believed: its certificate or its TLS cannot be used (${said}).`)
    : new Later(`${name} cannot be reached (${said}).`)
}

const bare = (host: string): string => host.replace(/^\[(.*)\]$/, '$1')

/** Reads the CA certificates of a setting, at each use. @throws KekUnavailable */
export function readCa(file: string | undefined, setting: string): Buffer | null {
  if (file === undefined) return null
  try {
    const ca = readFileSync(file)
    if (!ca.includes('-----BEGIN CERTIFICATE-----')) throw new KekUnavailable(`${setting}_CA_FILE holds no certificate (PEM).`) // prettier-ignore
    return ca
  } catch (error) {
    if (error instanceof KekUnavailable) throw error
    throw new KekUnavailable(`${setting}_CA_FILE cannot be read.`)
  }
}
