import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { describeError, isErrorCode } from '../../src/errors.ts'
import { withoutReferences, type Document, type FuzzRequest } from './requests.ts'

export type FuzzAnswer = { status: number; headers: Record<string, string | string[] | undefined>; text: string }

/** Refusals that come before an operation is found, so that no operation documents them. */
const BEFORE_ROUTES = [404, 405, 408, 414, 417, 431]
/** What only shows when the inside of the program leaks: frames, files, SQL. */
const INSIDE =
  /node:internal|node_modules|\/src\/|\.ts:\d|\bat (async )?\w+ \(|select "|insert into|pglite|postgres|syntax error at|ECONNREFUSED|"stack"|invalid byte sequence/i

/**
 * Reads answers as a distrustful client: is it documented, is it what the document says, does it tell too much?
 * @param secrets  texts that may be in no answer
 */
export function openJudge(
  written: Document,
  secrets: string[],
): (request: FuzzRequest, answer: FuzzAnswer) => string | null {
  const document = withoutReferences(written, written)
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  const validators = new Map<object, ValidateFunction>()
  const validate = (schema: object, body: unknown): string | null => {
    let validator = validators.get(schema)
    if (validator === undefined) validators.set(schema, (validator = ajv.compile(schema)))
    return validator(body) ? null : ajv.errorsText(validator.errors)
  }
  const problemSchema = anyProblemSchema(document)
  const shapes = Object.keys(document.paths).map((template) => ({
    template,
    pattern: new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}/?$`),
  }))

  return ({ method, path, headers: sent }, { status, headers, text }) => {
    // A broken parameter may lead to another operation: an empty one to the list, for example.
    const place = path.split('?', 1)[0]!
    const template = shapes.find(({ pattern }) => pattern.test(place))?.template ?? ''
    if (status >= 500) return `a ${status}`
    const type = String(headers['content-type'] ?? '')
    const leak = secrets.find((secret) => text.includes(secret) || JSON.stringify(headers).includes(secret))
    if (leak !== undefined) return 'a secret in the answer'
    if (method === 'HEAD' || (method === 'OPTIONS' && status === 204))
      return text === '' ? null : 'a body where none belongs'
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      return `a body that is no JSON, of type ${type}`
    }
    if (status >= 400) {
      if (!/^application\/problem\+json(; charset=utf-8)?$/.test(type)) return `a refusal of type ${type}`
      const wrong = validate(problemSchema, body) ?? judgeProblem(body as Problem, status, headers)
      if (wrong !== null) return wrong
      const { detail, errors, title } = body as Problem
      const told = [detail, title, ...(errors ?? []).map((one) => one.detail)].join('\n')
      // What a caller sent may be repeated to them.
      const leaked = INSIDE.exec(told)?.[0]
      if (leaked !== undefined && !`${path}${JSON.stringify(sent)}`.includes(leaked))
        return `an inside showing: ${leaked}`
    } else if (!/^application\/json(; charset=utf-8)?$/.test(type)) return `an answer of type ${type}`
    const operation = document.paths[template]?.[method.toLowerCase()]
    if (operation === undefined) return status >= 400 ? null : `a ${status} to an operation that is not documented`
    const documented = operation.responses[status]
    if (documented === undefined) return BEFORE_ROUTES.includes(status) ? null : `a ${status} that is not documented`
    return validate(Object.values(documented.content)[0]!.schema, body)
  }
}

type Problem = {
  code: string
  status: number
  type: string
  requestId: string
  detail: string
  title: string
  error: string
  errors?: { detail: string }[]
}

function judgeProblem(
  { code, status, type, requestId, detail, error }: Problem,
  sent: number,
  headers: FuzzAnswer['headers'],
): string | null {
  if (!isErrorCode(code)) return `the unknown code ${code}`
  if (status !== sent || describeError(code).status !== sent) return `${code} with status ${sent}`
  if (!type.endsWith(`/docs/errors#${code}`)) return `${code} with type ${type}`
  // What the HTTP parser refuses has no request behind it and no such header.
  if (headers['x-request-id'] !== undefined && headers['x-request-id'] !== requestId) return 'two request ids'
  if (detail === '' || error !== detail) return 'no detail, or another in `error`'
  if (sent === 401 && headers['www-authenticate'] === undefined) return 'a 401 without WWW-Authenticate'
  if (sent === 405 && headers.allow === undefined) return 'a 405 without Allow'
  if (sent === 429 && headers['retry-after'] === undefined) return 'a 429 without Retry-After'
  return null
}

const anyProblemSchema = (document: Document): object =>
  document.paths['/v1/me']!.get!.responses['400']!.content['application/problem+json']!.schema
