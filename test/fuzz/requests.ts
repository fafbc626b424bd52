import fc, { type Arbitrary } from 'fast-check'
import { anyAbi, anyJson, anyText, forgedCursor, plausibleText } from './junk.ts'

/** A request as bytes on the wire, nearly: header values and path hold nothing that Node's client refuses. */
export type FuzzRequest = {
  method: string
  /** the path of the document that it was made for */
  template: string
  path: string
  headers: Record<string, string | string[]>
  body: string | Buffer | undefined
}

export type Operation = {
  method: string
  template: string
  parameters: { in: 'path' | 'query' | 'header'; name: string; required?: boolean; schema: Schema }[]
  body: Schema | undefined
}
type Schema = {
  type?: string
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  items?: Schema
  required?: string[]
  properties?: Record<string, Schema>
}
export type Body = Record<string, unknown>

/** What exists, by the names that parameters have: without it nearly every request would end at its first field. */
export type Pool = {
  /** values by parameter name */
  values: Record<string, () => string[]>
  /** bodies that are accepted, by the path of their operation */
  bodies: Record<string, Body[]>
  /** bearer tokens by what they are */
  tokens: { own: string; other: string; machine: string }
}

/** As much of an OpenAPI document as is read here. */
export type Document = {
  components?: object
  paths: Record<
    string,
    Record<
      string,
      {
        parameters?: Operation['parameters']
        requestBody?: { content: Record<string, { schema: Schema }> }
        responses: Record<string, { content: Record<string, { schema: object }> }>
      }
    >
  >
}

/** The operations of users. The operator's need a token that is not handed out here. */
export function operationsOf(document: Document): Operation[] {
  return Object.entries(withoutReferences(document, document).paths)
    .filter(([template]) => template.startsWith('/v1/'))
    .flatMap(([template, methods]) =>
      Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
        method: method.toUpperCase(),
        template,
        parameters,
        body: requestBody?.content['application/json']!.schema,
      })),
    )
}

/** With everything in place of what refers to it. */
export function withoutReferences<T>(value: T, document: Document): T {
  if (Array.isArray(value)) return value.map((one: unknown) => withoutReferences(one, document)) as T
  if (typeof value !== 'object' || value === null) return value
  if (!('$ref' in value))
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withoutReferences(one, document)])) as T
  const steps = String(value.$ref).split('/').slice(1)
  return withoutReferences(steps.reduce((at: unknown, step) => (at as Record<string, unknown>)[step], document), document) as T // prettier-ignore
}

/** Requests for one operation: as the document says, then broken in up to three ways. */
export function requestsFor(operation: Operation, pool: Pool): Arbitrary<FuzzRequest> {
  return fc
    .tuple(decentRequest(operation, pool), fc.array(flaw(pool), { maxLength: 3 }), fc.integer({ min: 0, max: 9 }))
    .map(([draft, flaws, luck]) => write(luck < 4 ? draft : flaws.reduce((broken, change) => change(broken), draft)))
}

/** A request before it is written down. */
type Draft = {
  operation: Operation
  method: string
  /** already percent-encoded */
  path: Record<string, string>
  query: [name: string, value: string][]
  headers: Record<string, string | string[]>
  /** JSON text of each field; null: no body; text: as it is */
  body: Record<string, string> | null | { raw: string | Buffer }
}

function decentRequest(operation: Operation, pool: Pool): Arbitrary<Draft> {
  const { parameters, body } = operation
  const values = parameters.map(({ name, schema }) => {
    const value = valueOf(schema, pool.values[name]?.())
    return name === 'cursor' ? fc.oneof(value, forgedCursor) : value
  })
  const isThere = fc.array(fc.integer({ min: 0, max: 9 }), {
    minLength: parameters.length,
    maxLength: parameters.length,
  })
  return fc.tuple(fc.tuple(...values), isThere, bodyOf(operation, body, pool)).map(([given, chances, fields]) => {
    const chosen = parameters
      .map((parameter, index) => ({ ...parameter, value: String(given[index]) }))
      // Few parameters at once: most pairs of filters leave nothing.
      .filter(({ required }, index) => required === true || chances[index]! < 2)
    const of = (place: string) =>
      chosen.filter((one) => one.in === place).map(({ name, value }) => [name, value] as const)
    return {
      operation,
      method: operation.method,
      path: Object.fromEntries(of('path').map(([name, value]) => [name, encodeLoosely(value)])),
      query: of('query').map(([name, value]) => [name, encodeLoosely(value)] as [string, string]),
      headers: {
        // Only an application has webhooks.
        authorization: `Bearer ${operation.template.startsWith('/v1/webhooks') ? pool.tokens.machine : pool.tokens.own}`,
        ...(fields === null ? {} : { 'content-type': 'application/json' }),
        ...Object.fromEntries(of('header').map(([name, value]) => [name, headerSafe(value)])),
      },
      body: fields,
    }
  })
}

/** Calls that fit together, or fields each on its own. */
function bodyOf(
  { template }: Operation,
  schema: Schema | undefined,
  pool: Pool,
): Arbitrary<Record<string, string> | null> {
  if (schema === undefined) return fc.constant(null)
  const fields = fc
    .tuple(...Object.entries(schema.properties ?? {}).map(([name, property]) => fc.tuple(fc.constant(name), jsonOf(property, pool.values[name]?.()), fc.boolean()))) // prettier-ignore
    .map((all) => Object.fromEntries(all.filter(([name, , wanted]) => wanted || schema.required?.includes(name)).map(([name, json]) => [name, json] as const))) // prettier-ignore
  const calls = pool.bodies[template]
  if (calls === undefined) throw new Error(`say in the pool what the body of ${template} is`)
  const call = fc.constantFrom(...calls).map((one) => Object.fromEntries(Object.entries(one).map(([name, value]) => [name, JSON.stringify(value)]))) // prettier-ignore
  if (schema.properties?.calls !== undefined) {
    const several = fc.array(fc.oneof(call, call, fields), { minLength: 1, maxLength: 5 })
    return several.map((list) => ({ calls: `[${list.map((one) => objectText(one)).join()}]` }))
  }
  const extras = fc.oneof(
    { weight: 3, arbitrary: fc.constant({}) },
    ...Object.entries(schema.properties ?? {})
      .filter(([name]) => !(name in calls[0]!))
      .map(([name, property]) => ({ weight: 1, arbitrary: jsonOf(property, pool.values[name]?.()).map((json) => ({ [name]: json })) })), // prettier-ignore
  )
  return fc.oneof({ weight: 4, arbitrary: fc.tuple(call, extras).map(([one, more]) => ({ ...one, ...more }) as Record<string, string>) }, { weight: 1, arbitrary: fields }) // prettier-ignore
}

const jsonOf = (schema: Schema, known: string[] | undefined): Arbitrary<string> =>
  valueOf(schema, known).map((value) => JSON.stringify(value))

/** A value that the schema allows, mostly one that exists. */
function valueOf(schema: Schema, known: string[] = []): Arbitrary<unknown> {
  const free = freeValueOf(schema)
  return known.length === 0
    ? free
    : fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...known) }, { weight: 1, arbitrary: free })
}

function freeValueOf(schema: Schema): Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => freeValueOf(one)))
  switch (schema.type) {
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.oneof(fc.integer({ min: schema.minimum ?? 0, max: Math.min(schema.maximum ?? 100, 100) }), fc.maxSafeInteger().map((number) => Math.abs(number))) // prettier-ignore
    case 'array':
      return fc.array(freeValueOf(schema.items ?? {}), { minLength: schema.minItems ?? 0, maxLength: Math.min(schema.maxItems ?? 4, 4) }) // prettier-ignore
    case 'object':
      return fc.tuple(...Object.entries(schema.properties ?? {}).map(([name, property]) => fc.tuple(fc.constant(name), freeValueOf(property)))).map(Object.fromEntries) // prettier-ignore
    default:
      if (schema.pattern !== undefined) return fc.stringMatching(new RegExp(schema.pattern), { maxLength: 40 })
      return fc.oneof(plausibleText, anyAbi).map((text) => text.slice(0, schema.maxLength ?? 9_000) || 'x')
  }
}

type Change = (draft: Draft) => Draft

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND']
const CONTENT_TYPES = ['', 'text/plain', 'application/json; charset=utf-16', 'application/json;charset=utf-8', 'APPLICATION/JSON', 'application/jsonx', 'application/x-www-form-urlencoded', 'multipart/form-data', 'multipart/form-data; boundary=', 'application/problem+json', 'json', '*/*', 'application/json, text/plain', ';'] // prettier-ignore
const HEADERS = ['accept', 'accept-encoding', 'accept-language', 'x-request-id', 'idempotency-key', 'x-idempotency-key', 'origin', 'referer', 'range', 'if-none-match', 'if-modified-since', 'x-forwarded-for', 'x-forwarded-host', 'x-http-method-override', 'cookie', 'content-encoding', 'content-language', 'prefer', 'expect', 'te', 'forwarded', 'access-control-request-method', 'user-agent', 'x-odd'] // prettier-ignore

/** One thing wrong with a request. */
function flaw(pool: Pool): Arbitrary<Change> {
  const { own, other } = pool.tokens
  const tokens = fc.oneof(
    fc.constantFrom('', 'Bearer', 'Bearer ', `Basic ${own}`, `bearer  ${own}`, `Bearer ${own} ${own}`, `Bearer ${own}x`, `Bearer ${own.slice(0, -3)}`, `Bearer ${own.split('.').slice(0, 2).join('.')}.`, `Bearer ${'a'.repeat(5_000)}`, 'Bearer eyJhbGciOiJub25lIn0.e30.'), // prettier-ignore
    fc.constant(`Bearer ${other}`),
    fc.integer({ min: 0, max: own.length - 1 }).map((at) => `Bearer ${own.slice(0, at)}A${own.slice(at + 1)}`),
    anyText.map((text) => `Bearer ${headerSafe(text)}`),
  )
  return fc.oneof(
    { weight: 1, arbitrary: tokens.map((authorization): Change => (draft) => ({ ...draft, headers: { ...draft.headers, authorization } })) }, // prettier-ignore
    { weight: 1, arbitrary: fc.constant<Change>((draft) => ({ ...draft, headers: without(draft.headers, 'authorization') })) }, // prettier-ignore
    {
      weight: 1,
      arbitrary: fc.constantFrom(...METHODS).map((method): Change => (draft) => ({ ...draft, method })),
    },
    { weight: 2, arbitrary: fc.tuple(fc.constantFrom(...HEADERS), plausibleText).map(([name, value]): Change => (draft) => ({ ...draft, headers: { ...draft.headers, [name]: headerSafe(value) } })) }, // prettier-ignore
    { weight: 4, arbitrary: fc.tuple(fc.nat(), plausibleText, fc.boolean()).map(([at, text, encoded]): Change => breakPath(at, encoded ? encodeLoosely(text) : pathSafe(text))) }, // prettier-ignore
    { weight: 4, arbitrary: fc.tuple(fc.nat(), plausibleText, fc.constantFrom('twice', 'value', 'name', 'raw')).map(([at, text, how]): Change => breakQuery(at, text, how)) }, // prettier-ignore
    { weight: 5, arbitrary: fc.tuple(fc.nat(), anyJson, fc.constantFrom('value', 'value', 'drop', 'add')).map(([at, json, how]): Change => breakField(at, json, how)) }, // prettier-ignore
    { weight: 1, arbitrary: anyAbi.map((abi): Change => breakAbi(JSON.stringify(abi))) },
    { weight: 2, arbitrary: fc.constantFrom(...CONTENT_TYPES).map((type): Change => (draft) => ({ ...draft, headers: { ...draft.headers, 'content-type': type } })) }, // prettier-ignore
    {
      weight: 2,
      arbitrary: rawBody.map((raw): Change => (draft) => ({ ...draft, body: { raw } })),
    },
    { weight: 1, arbitrary: fc.nat().map((at): Change => cutBody(at)) },
  )
}

const rawBody: Arbitrary<string | Buffer> = fc.oneof(
  fc.constantFrom<(string | Buffer)[]>('', ' ', 'null', '[]', '"x"', '{', '{}', '{"address":1}', '{"a":1,"a":2}', '\ufeff{}', '{"__proto__":{}}', "{'a':1}", '{"abi":"\\ud800"}', Buffer.from([0x7b, 0xff, 0x7d]), Buffer.from('{"a":"\u00e9"}', 'latin1'), Buffer.from('{}', 'utf16le'), `{"abi":"${'a'.repeat(9_000)}"}`, `{"abi":"${'a'.repeat(70_000)}"}`, '['.repeat(30_000), '{"a":'.repeat(5_000)), // prettier-ignore
  anyJson,
  anyText,
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
)

const without = <T>(record: Record<string, T>, name: string): Record<string, T> =>
  Object.fromEntries(Object.entries(record).filter(([one]) => one !== name))

const pick = <T>(items: T[], at: number): T | undefined => items[at % Math.max(items.length, 1)]

const breakPath =
  (at: number, value: string): Change =>
  (draft) => {
    const name = pick(Object.keys(draft.path), at)
    return name === undefined ? draft : { ...draft, path: { ...draft.path, [name]: value } }
  }

const breakQuery =
  (at: number, text: string, how: string): Change =>
  (draft) => {
    const names = draft.operation.parameters.filter((one) => one.in === 'query').map(({ name }) => name)
    const name = how === 'name' ? encodeLoosely(text.slice(0, 50)) : (pick(names, at) ?? 'limit')
    const value = how === 'raw' ? pathSafe(text) : encodeLoosely(text)
    const more: [string, string][] = how === 'twice' ? [[name, value], [name, value]] : [[name, value]] // prettier-ignore
    return { ...draft, query: [...draft.query, ...more] }
  }

const breakField =
  (at: number, json: string, how: string): Change =>
  (draft) => {
    const { body, operation } = draft
    if (body === null || 'raw' in body) return draft
    const names = Object.keys(operation.body?.properties ?? {})
    const name = how === 'add' ? `extra${at % 10}` : (pick(names, at) ?? 'extra')
    const rest = without(body as Record<string, string>, name)
    return { ...draft, body: how === 'drop' ? rest : { ...rest, [name]: json } }
  }

const breakAbi =
  (abi: string): Change =>
  (draft) =>
    draft.body === null || 'raw' in draft.body || !('abi' in draft.body)
      ? draft
      : { ...draft, body: { ...draft.body, abi } }

const cutBody =
  (at: number): Change =>
  (draft) => {
    if (draft.body === null || 'raw' in draft.body) return draft
    const text = objectText(draft.body)
    return { ...draft, body: { raw: text.slice(0, at % text.length) } }
  }

function write({ operation, method, path, query, headers, body }: Draft): FuzzRequest {
  const { template } = operation
  const place = template.replaceAll(/\{(\w+)\}/g, (_, name: string) => path[name] ?? '')
  const search = query.map(([name, value]) => `${name}=${value}`).join('&')
  return {
    method,
    template,
    path: `${place}${search === '' ? '' : `?${search}`}`,
    headers,
    body: body === null ? undefined : isRaw(body) ? body.raw : objectText(body),
  }
}

const isRaw = (body: Record<string, string> | { raw: string | Buffer }): body is { raw: string | Buffer } =>
  'raw' in body

const objectText = (fields: Record<string, string>): string =>
  `{${Object.entries(fields).map(([name, json]) => `${JSON.stringify(name)}:${json}`).join()}}` // prettier-ignore

/** As encodeURIComponent, which refuses lone surrogates: they go out as the bytes that they would be. */
function encodeLoosely(text: string): string {
  return Array.from(text, (character) => (character.isWellFormed() ? encodeURIComponent(character) : encodeSurrogate(character))).join('') // prettier-ignore
}

function encodeSurrogate(character: string): string {
  const code = character.charCodeAt(0)
  return [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)].map((byte) => `%${byte.toString(16)}`).join('') // prettier-ignore
}

/** What Node's client lets into a path: broken percent signs too. */
const pathSafe = (text: string): string => text.replaceAll(/[^\u0021-\u00ff]|#/g, '').slice(0, 3_000)
/** What Node's client lets into a header. */
const headerSafe = (text: string): string => text.replaceAll(/[^\t\u0020-\u007e\u0080-\u00ff]/g, '').slice(0, 3_000)
