import { readFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { KekUnavailable } from './provider.ts'
import { systemClock } from '../../clock.ts'

/** A key service over HTTP: where it listens, and what it is called in sentences. */
export type Service = {
  /** for sentences: `Vault`, `AWS KMS` */
  name: string
  /** scheme, host and port; of a Unix socket `http://localhost` */
  origin: URL
  socketPath: string | null
  /** certificates in PEM that are believed instead of the system’s */
  ca: Buffer | null
}

/** One request. Its body is wiped when it was answered: it may hold a data key. */
export type ServiceRequest = {
  method: 'GET' | 'POST'
  /** absolute, with its query */
  path: string
  headers: Record<string, string>
  body: Buffer
}

export type ServiceAnswer = { status: number; body: Buffer }

/** How long is waited; others only in tests. */
export type Patience = {
  /** for one answer, from the connection to its last byte */
  answerMs: number
  /** before the second attempt, and twice that before the third, each less up to a half at random */
  pauseMs: number
}

export const PATIENCE: Patience = { answerMs: 5_000, pauseMs: 200 }
const MAX_ATTEMPTS = 3
/** A wrapped data key takes a few hundred. */
const MAX_ANSWER_BYTES = 65_536

/**
 * Asks a key service. Wrapping and unwrapping may be done twice, so what was not answered, or answered with "later", is tried
 * again. A redirect is not followed: what was sent is for the host that was named.
 * @param make     for each attempt anew: tokens are renewed, and signatures have a date
 * @param isBusy   an answer that says "later" otherwise than by its status
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

/** What another attempt may change. */
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
      // Not the shared ones: settings of the environment that lead them through a proxy are none of this program's.
      agent: false,
      setDefaultHeaders: true,
      ...(socketPath === null ? { host: bare(origin.hostname), port: origin.port } : { socketPath }),
    }
    const call =
      origin.protocol === 'https:'
        ? // Whatever NODE_TLS_REJECT_UNAUTHORIZED says.
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

/** A code of the system's or of TLS; never what was sent. */
function notReached(name: string, { code }: NodeJS.ErrnoException): KekUnavailable {
  const said = /^[A-Z0-9_]{1,64}$/.exec(code ?? '')?.[0] ?? 'unknown'
  return /CERT|SIGNATURE|ISSUER|ALTNAME|SSL|TLS/.test(said)
    ? new KekUnavailable(`${name} is not believed: its certificate or its TLS cannot be used (${said}).`)
    : new Later(`${name} cannot be reached (${said}).`)
}

const bare = (host: string): string => host.replace(/^\[(.*)\]$/, '$1')

/** The file of a setting with certificates; read at each use, like everything beside it. @throws KekUnavailable */
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
