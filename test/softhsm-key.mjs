// Makes an AES key in a token, in a process of its own: a module is initialised once in each.
import library from 'pkcs11js'

const [path, token, pin, label, bits, mayLeave] = process.argv.slice(2)
const module = new library.PKCS11()
module.load(path)
module.C_Initialize()
const slot = module.C_GetSlotList(true).find((one) => module.C_GetTokenInfo(one).label.trim() === token)
const session = module.C_OpenSession(slot, library.CKF_SERIAL_SESSION | library.CKF_RW_SESSION)
module.C_Login(session, library.CKU_USER, pin)
const is = (name, value) => ({ type: library[name], value })
module.C_GenerateKey(session, { mechanism: library.CKM_AES_KEY_GEN, parameter: null }, [
  is('CKA_CLASS', library.CKO_SECRET_KEY),
  is('CKA_KEY_TYPE', library.CKK_AES),
  is('CKA_LABEL', label),
  is('CKA_VALUE_LEN', Number(bits) / 8),
  is('CKA_TOKEN', true),
  is('CKA_PRIVATE', true),
  is('CKA_SENSITIVE', mayLeave !== 'true'),
  is('CKA_EXTRACTABLE', mayLeave === 'true'),
  is('CKA_ENCRYPT', true),
  is('CKA_DECRYPT', true),
])
