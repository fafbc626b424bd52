import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../errors.ts'

const PROJECT = new URL('../../', import.meta.url)
const hidden = { schema: { hide: true } }

/**
 * Registers GET /demo: the example `examples/vanilla`, and the sources of the client as JavaScript, so that a newcomer
 * tries an application without a build. Only in development.
 */
export function demo(server: FastifyInstance): void {
  for (const path of ['/demo', '/demo/callback'])
    server.get(path, hidden, async (_request, reply) => {
      const page = await source('examples/vanilla/index.html')
      const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(([, text]) => `'sha256-${createHash('sha256').update(text!).digest('base64')}'`) // prettier-ignore
      const policy = `default-src 'self'; script-src 'self' ${scripts.join(' ')}; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'`
      return reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(page)
    })

  server.get<{ Params: { '*': string } }>('/demo/client/*', hidden, async ({ params }, reply) => {
    const { '*': path } = params
    if (!/^(?:[a-z]+\/)?[a-z-]+\.ts$/.test(path)) throw missing()
    return reply
      .type('text/javascript; charset=utf-8')
      .send(stripTypeScriptTypes(await source(`packages/client/src/${path}`)))
  })

  server.get('/demo/oauth4webapi.js', hidden, async (_request, reply) =>
    reply
      .type('text/javascript; charset=utf-8')
      .send(await readFile(new URL(import.meta.resolve('oauth4webapi')), 'utf8')),
  )
}

/** Reads a file of the project when it is asked for: a copy of the program may lack it. @throws not_found */
const source = (path: string): Promise<string> =>
  readFile(new URL(path, PROJECT), 'utf8').catch((cause: unknown) => {
    throw missing(cause)
  })

const missing = (cause?: unknown): AppError =>
  new AppError('not_found', 'This file does not exist. Nothing was done. Check the path.', { cause })
