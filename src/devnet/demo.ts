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
export async function demo(server: FastifyInstance): Promise<void> {
  const page = await readFile(new URL('examples/vanilla/index.html', PROJECT), 'utf8')
  const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(([, text]) => `'sha256-${createHash('sha256').update(text!).digest('base64')}'`) // prettier-ignore
  const policy = `default-src 'self'; script-src 'self' ${scripts.join(' ')}; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'`

  for (const path of ['/demo', '/demo/callback'])
    server.get(path, hidden, (_request, reply) =>
      reply.type('text/html; charset=utf-8').header('content-security-policy', policy).send(page),
    )

  server.get<{ Params: { '*': string } }>('/demo/client/*', hidden, async ({ params }, reply) => {
    const { '*': path } = params
    const file = /^(?:[a-z]+\/)?[a-z-]+\.ts$/.test(path) ? new URL(`packages/client/src/${path}`, PROJECT) : null
    const text = file === null ? null : await readFile(file, 'utf8').catch(() => null)
    if (text === null) throw new AppError('not_found', 'This file does not exist.')
    return reply.type('text/javascript; charset=utf-8').send(stripTypeScriptTypes(text))
  })

  server.get('/demo/oauth4webapi.js', hidden, async (_request, reply) =>
    reply
      .type('text/javascript; charset=utf-8')
      .send(await readFile(new URL(import.meta.resolve('oauth4webapi')), 'utf8')),
  )
}
