/** A parsed PKCS#11 URI (RFC 7512): the module's path, the token and the key object. */
export type Pkcs11Uri = {
  modulePath: string
  /** attributes of the token; all must match */
  token: { label?: string; serial?: string; manufacturer?: string; model?: string; slotId?: number }
  /** attributes of the key; all must match */
  object: { label?: string; id?: Buffer }
}

/**
 * Parses a PKCS#11 URI. Attributes that RFC 7512 allows and this parser does not support are rejected: an ignored attribute may be
 * the one that selects another key.
 * @throws Error  a sentence that names the attribute
 * Source: RFC 7512 §2.3 and §2.4
 */
export function readPkcs11Uri(text: string): Pkcs11Uri {
  const [, path, query = ''] = /^pkcs11:([^?]*)(?:\?(.*))?$/s.exec(text) ?? []
  if (path === undefined) throw new Error('it is no pkcs11: URI (RFC 7512)')
  const uri: Pkcs11Uri = { modulePath: '', token: {}, object: {} }
  for (const [name, value] of parts(path, ';')) readPathPart(uri, name, value)
  for (const [name, value] of parts(query, '&')) readQueryPart(uri, name, value)
  if (uri.modulePath === '') throw new Error('its module-path is missing: the library of the token')
  if (Object.keys(uri.token).length === 0) throw new Error('it names no token: token=, serial= or slot-id=')
  if (Object.keys(uri.object).length === 0) throw new Error('it names no key: object= or id=')
  return uri
}

function readPathPart({ token, object }: Pkcs11Uri, name: string, value: Buffer): void {
  const text = value.toString('utf8')
  switch (name) {
    case 'token':
      return void (token.label = text)
    case 'serial':
      return void (token.serial = text)
    case 'manufacturer':
      return void (token.manufacturer = text)
    case 'model':
      return void (token.model = text)
    case 'slot-id':
      if (!/^\d{1,15}$/.test(text)) throw new Error('its slot-id is no number')
      return void (token.slotId = Number(text))
    case 'object':
      return void (object.label = text)
    case 'id':
      return void (object.id = value)
    case 'type':
      if (text !== 'secret-key') throw new Error('its type is not secret-key')
      return
    default:
      throw new Error(`its part ${name} is not known`)
  }
}

function readQueryPart(uri: Pkcs11Uri, name: string, value: Buffer): void {
  if (name === 'pin-value' || name === 'pin-source')
    throw new Error(`it has a ${name}: the PIN belongs in a file of its own, SIGNER_KEK_PIN_FILE`)
  if (name !== 'module-path') throw new Error(`its part ${name} is not known`)
  const path = value.toString('utf8')
  if (!path.startsWith('/')) throw new Error('its module-path is no absolute path')
  uri.modulePath = path
}

function* parts(text: string, separator: string): Generator<[name: string, value: Buffer]> {
  const seen = new Set<string>()
  for (const part of text === '' ? [] : text.split(separator)) {
    const [, name, value] = /^([a-z-]+)=([^=]*)$/.exec(part) ?? []
    if (name === undefined) throw new Error('one of its parts is not name=value')
    if (seen.has(name)) throw new Error(`it says ${name} twice`)
    seen.add(name)
    yield [name, decode(value!)]
  }
}

/** Decodes percent-encoding to bytes, because an id need not be text. */
function decode(value: string): Buffer {
  if (/%(?![0-9a-fA-F]{2})/.test(value)) throw new Error('a % in it is not followed by two hexadecimal digits')
  const pieces = value.split(/(%[0-9a-fA-F]{2})/)
  return Buffer.concat(
    pieces.map((piece) => (piece.startsWith('%') ? Buffer.from(piece.slice(1), 'hex') : Buffer.from(piece, 'utf8'))),
  )
}
