import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Type } from 'typebox'
import { sharedSerializers } from './serializers.ts'

const route = (schema: unknown, url: string, httpStatus: string) => ({ method: 'GET', url, httpStatus, schema })
const shape = (name: string) => Type.Object({ [name]: Type.String(), count: Type.Optional(Type.Integer()) })

test('equal schemas of different routes and statuses share a serializer, different ones do not', () => {
  const compile = sharedSerializers()
  const first = compile(route(shape('code'), '/a', '400'))
  assert.equal(compile(route(shape('code'), '/b', '503')), first)
  const other = compile(route(shape('kind'), '/b', '503'))
  assert.notEqual(other, first)
  const body = { code: 'a"b', kind: 'c', count: 7, secret: 'd' }
  assert.equal(first(body), '{"code":"a\\"b","count":7}')
  assert.equal(other(body), '{"kind":"c","count":7}')
})

test('two servers share nothing', () => {
  assert.notEqual(
    sharedSerializers()(route(shape('code'), '/', '200')),
    sharedSerializers()(route(shape('code'), '/', '200')),
  )
})
