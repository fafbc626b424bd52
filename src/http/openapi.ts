import { STATUS_CODES } from 'node:http'
import swagger from '@fastify/swagger'
import type { FastifyContextConfig, FastifyInstance } from 'fastify'
import { issuerOf, type App } from '../app.ts'
import { AppError, describeError, errorCodes } from '../errors.ts'
import { HEADERS, headersOfRefusal, headersOfSuccess, type HeaderName } from './openapi-headers.ts'
import { problemOf } from './problems.ts'
import { en } from '../texts/en.ts'

const descriptionOf = (
  issuer: string,
): string => `Wallet accounts for users who sign in with an account they already have.

Every request needs \`Authorization: Bearer <access token>\`, or \`DPoP <access token>\` and a proof in the header
\`DPoP\` if the token is bound to a key (RFC 9449). Get a token by the authorization code flow with PKCE
(S256) at the authorization server, whose discovery document is
[${issuer}/.well-known/openid-configuration](${issuer}/.well-known/openid-configuration). An application is bound to one
network, so requests do not name a network. Errors are problem documents (RFC 9457) with a stable \`code\`: see
[the list of errors](/docs/errors).`

const TAGS = {
  Users: 'Signed-in user, and users of an application',
  Balances: 'Native currency and tokens of an account, at one block',
  History: 'Transfers of ERC-20, ERC-721 and ERC-1155 tokens and, on request, of native currency',
  Contracts: 'Reads and writes of any contract',
  Transfers: 'Transfers of native currency and tokens to users, even before they have signed in',
  Transactions: 'Sending transactions, and their state',
  Signatures: 'Messages and typed data that the user signs, and the approvals that they need',
  Events: 'Changes of transactions, transfers and accounts, as one ordered feed',
  Webhooks: 'Events that are sent to the server of an application',
  Operator: 'Applications, networks and accounts of this installation, for its operators',
}

/** The scopes of access tokens, with descriptions. */
const SCOPES = {
  'wallet:read': 'Balances, transfers and transactions of the user',
  'contracts:read': 'Reads of contracts with the user as the sender',
  'contracts:write': 'Transactions on behalf of the user',
  'messages:sign': 'Signatures of texts and typed data on behalf of the user',
  'users:directory': 'Users of the same application who consented to be found, by name',
  'users:read': 'Application by itself: users who consented to it',
  'events:read': 'Application by itself: its feed of events',
  'webhooks:manage': 'Application by itself: its webhooks',
}

/**
 * Registers the OpenAPI 3.1 document, generated from the schemas that validate. Register it before the routes.
 * @param webhooks  requests that the service sends, by type of event
 */
export async function openapi(
  server: FastifyInstance,
  app: App,
  { webhooks }: { webhooks: Record<string, object> },
): Promise<void> {
  const { 'users:read': usersRead, 'events:read': eventsRead, 'webhooks:manage': webhooksManage, ...ofUsers } = SCOPES
  const ofMachines = { 'users:read': usersRead, 'events:read': eventsRead, 'webhooks:manage': webhooksManage }
  const issuer = issuerOf(app)
  const tokenUrl = `${issuer}/token`
  await server.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Chatelaine',
        version: '1',
        description: descriptionOf(issuer),
        contact: { name: 'Operators of this installation', url: app.origin },
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: app.origin }],
      components: {
        securitySchemes: {
          oauth: {
            type: 'oauth2',
            description: 'Access token of this installation’s authorization server. Its lifetime is `expires_in`.',
            flows: {
              authorizationCode: {
                authorizationUrl: `${issuer}/auth`,
                tokenUrl,
                refreshUrl: tokenUrl,
                scopes: ofUsers,
              },
              clientCredentials: { tokenUrl, scopes: ofMachines },
            },
          },
          operator: { type: 'http', scheme: 'bearer', description: 'Operator API token; user tokens are rejected' },
        },
      },
      webhooks,
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    },
    // Only routes with a tag belong to the API; pages and probes do not.
    transform: ({ schema, url, route }) => ({
      schema: schema?.tags === undefined ? { ...schema, hide: true } : { ...securityOf(route.config ?? {}), ...schema },
      url,
    }),
    transformObject: (found) =>
      'openapiObject' in found
        ? (refine(found.openapiObject as unknown as Document, app.origin) as object)
        : found.swaggerObject,
  })
  server.get('/openapi.json', { schema: { hide: true } }, (_request, reply) =>
    reply.header('access-control-allow-origin', '*').send(server.swagger()),
  )
}

/** Derives the documented scopes of a route from its configuration, which also enforces them. */
function securityOf({ scope, machineScope }: FastifyContextConfig): { security?: Record<string, string[]>[] } {
  if (scope === undefined) return {}
  const ways = [
    ...(scope === 'machine' ? [] : [scope === 'any' ? [] : [scope]]),
    ...(machineScope === undefined ? [] : [[machineScope]]),
  ]
  return { security: ways.map((scopes) => ({ oauth: scopes })) }
}

type Schema = Record<string, unknown>
type Media = { schema: Schema; example?: unknown; examples?: object }
type RouteOperation = {
  'x-sends'?: HeaderName[]
  security?: Record<string, unknown>[]
  parameters?: { schema: Schema }[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, { description: string; content?: Record<string, Media> }>
}
type Document = {
  paths: Record<string, Record<string, RouteOperation>>
  components: { schemas?: Record<string, Schema>; responses?: Record<string, object>; headers?: object }
}

/**
 * Refines the document for client generators:
 * - a schema with a title becomes a component that others refer to
 * - `x-shown-as` replaces a schema that is text only on the wire
 * - a union of constants becomes an enumeration
 * - every body has an example
 * - an error response is defined once per status
 * - every response names its headers
 */
function refine(document: Document, origin: string): Document {
  const schemas: Record<string, Schema> = {}
  const refusals: Record<string, object> = {}
  const paths = mapValues(document.paths, (operations) =>
    mapValues(operations, ({ 'x-sends': sent = [], ...operation }) => ({
      ...operation,
      ...(operation.parameters === undefined
        ? {}
        : { parameters: operation.parameters.map((one) => ({ ...one, schema: named(one.schema, schemas) })) }),
      ...(operation.requestBody === undefined
        ? {}
        : {
            requestBody: {
              ...operation.requestBody,
              content: mapValues(operation.requestBody.content, (media) => withExample(media, schemas)),
            },
          }),
      responses: Object.fromEntries(
        Object.entries(operation.responses).map(([status, response]) => {
          const description = STATUS_CODES[status] ?? response.description
          const { content = {} } = response
          if (Number(status) < 400) {
            const isLimited = operation.security?.some((one) => 'oauth' in one) === true
            const headers = headersOfSuccess(Number(status), { sent, isLimited })
            return [
              status,
              { description, headers, content: mapValues(content, (media) => withExample(media, schemas)) },
            ]
          }
          // Error responses of one status are the same for all routes.
          const name = description.replaceAll(/\W/g, '')
          const example = refusalOf(Number(status), origin)
          refusals[name] ??= {
            description,
            headers: headersOfRefusal(Number(status)),
            content: mapValues(content, (media) => withExample({ ...media, example }, schemas)),
          }
          return [status, { $ref: `#/components/responses/${name}` }]
        }),
      ),
    })),
  )
  const sorted = Object.fromEntries(Object.entries(schemas).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  const components = { ...document.components, schemas: sorted, responses: refusals, headers: HEADERS }
  return { ...document, paths, components } as Document
}

/** Keywords whose values are not schemas. */
const VALUES = new Set(['example', 'examples', 'default', 'const', 'enum', 'required'])

/**
 * Moves every titled part of a schema to `schemas` and refers to it.
 * @throws Error if two different schemas share a title
 */
function named(schema: Schema, schemas: Record<string, Schema>): Schema {
  const inner = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inner)
    return typeof value === 'object' && value !== null ? named(value as Schema, schemas) : value
  }
  const { 'x-shown-as': shown, ...wire } = schema
  if (shown !== undefined) {
    const { description } = wire
    return named({ ...(description === undefined ? {} : { description }), ...(shown as Schema) }, schemas)
  }
  const found: Schema = Object.fromEntries(
    Object.entries(wire).map(([key, value]) => {
      if (key === 'properties') return [key, mapValues(value as Schema, inner)]
      return [key, VALUES.has(key) ? value : inner(value)]
    }),
  )
  const { title, ...rest } = asEnumeration(found)
  if (typeof title !== 'string') return found.anyOf === undefined ? found : rest
  const { description, examples, ...shape } = rest
  const known = schemas[title]
  if (known !== undefined && JSON.stringify(shapeOf(known)) !== JSON.stringify(shape))
    throw new Error(`two schemas are called ${title}`)
  // The schema of a parameter or body comes without description and examples; take those that are known.
  const words = { description: description ?? known?.description, examples: examples ?? known?.examples }
  schemas[title] = { ...shape, ...Object.fromEntries(Object.entries(words).filter(([, one]) => one !== undefined)) }
  return { $ref: `#/components/schemas/${title}` }
}

const shapeOf = (schema: Schema): Schema =>
  Object.fromEntries(Object.entries(schema).filter(([key]) => key !== 'description' && key !== 'examples'))

/** Turns a union of string constants into an enumeration. */
function asEnumeration(schema: Schema): Schema {
  const { anyOf, ...rest } = schema
  if (!Array.isArray(anyOf) || !anyOf.every((one: Schema) => typeof one.const === 'string')) return schema
  return { type: 'string', enum: anyOf.map((one: Schema) => one.const), ...rest }
}

function withExample({ schema, ...media }: Media, schemas: Record<string, Schema>): Media {
  const own = named(schema, schemas)
  if ('example' in media || 'examples' in media) return { ...media, schema: own }
  const example = exampleOf(own, schemas)
  return { ...media, schema: own, ...(example === undefined ? {} : { example }) }
}

/** Builds an example from the examples of a schema's parts. @returns undefined if one is missing */
function exampleOf(schema: Schema, schemas: Record<string, Schema>): unknown {
  const { $ref, examples, type, items, properties, required = [], minimum = 0, anyOf } = schema
  if (typeof $ref === 'string') return exampleOf(schemas[$ref.slice($ref.lastIndexOf('/') + 1)]!, schemas)
  if (Array.isArray(examples)) return examples[0]
  if ('const' in schema) return schema.const
  if (Array.isArray(schema.enum)) return schema.enum[0]
  if (Array.isArray(anyOf)) return exampleOf(anyOf[0] as Schema, schemas)
  if (type === 'array') {
    const one = exampleOf(items as Schema, schemas)
    return one === undefined ? undefined : [one]
  }
  if (type === 'integer') return minimum
  if (type === 'boolean') return false
  if (type !== 'object' || typeof properties !== 'object' || properties === null) return undefined
  const parts = Object.entries(properties)
    .filter(([name]) => (required as string[]).includes(name))
    .map(([name, part]) => [name, exampleOf(part as Schema, schemas)] as const)
  return parts.some(([, part]) => part === undefined) ? undefined : Object.fromEntries(parts)
}

/** Builds an example of the first error of a status. */
function refusalOf(status: number, origin: string): object {
  const code = errorCodes.find((one) => describeError(one).status === status)!
  return problemOf(new AppError(code, describeError(code).help), {
    origin,
    instance: '/v1/me',
    requestId: 'c2b7a0f4-5b1f-4c7e-9d3a-4c2b8f0c7e1e',
    words: en,
  })
}

const mapValues = <T, U>(record: Record<string, T>, map: (value: T) => U): Record<string, U> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value)]))
