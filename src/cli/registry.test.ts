import assert from 'node:assert/strict'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { mock, test } from 'node:test'
import { commandActor } from './registry.ts'

/** Runs a check as a user that the machine does not list, such as an arbitrary uid of a container. */
function withoutPasswdEntry(check: () => void): void {
  const unlisted = mock.method(os, 'userInfo', () => {
    throw Object.assign(new Error('uv_os_get_passwd returned ENOENT'), { code: 'ERR_SYSTEM_ERROR' })
  })
  syncBuiltinESMExports()
  try {
    check()
  } finally {
    unlisted.mock.restore()
    syncBuiltinESMExports()
  }
}

test('a command is recorded under the OS user, and with sudo also under its caller', () => {
  const { username } = os.userInfo()
  assert.deepEqual(commandActor({}), { name: username, via: 'command' })
  assert.deepEqual(commandActor({ SUDO_USER: 'anna' }), { name: `anna as ${username}`, via: 'command' })
})

test('a user id without a passwd entry runs commands, recorded under the number', () => {
  withoutPasswdEntry(() => {
    const uid = `uid ${process.getuid!()}`
    assert.deepEqual(commandActor({}), { name: uid, via: 'command' })
    assert.deepEqual(commandActor({ SUDO_USER: 'anna' }), { name: `anna as ${uid}`, via: 'command' })
  })
})
