/** Texts of the page that lists everything signed for a user. */
type SignaturesTexts = {
  title: string
  hint: string
  check: string
  raised: string
  cancelled: string
  /** of an operation: another account pays the fee */
  sponsored: string
  /** of several calls: all are done or none */
  together: string
  /** an authorization (EIP-7702) of the code at an address */
  delegated: (code: string) => string
  link: string
  nonce: (nonce: number) => string
  proof: (record: number) => string
  paid: (to: string) => string
  called: (name: string, to: string) => string
  /** a signed message, by what a signature of it can do */
  messages: Record<MessageName, string>
  /** the start of a signed text, after its name in `messages` */
  quoted: (name: string, text: string) => string
}

type MessageName = 'login' | 'text' | 'payment' | 'allowance' | 'order' | 'vote' | 'power' | 'other' | 'opaque'

export const signatures: Record<'en' | 'de' | 'fr' | 'es' | 'ja', SignaturesTexts> = {
  en: {
    title: 'Everything signed for you',
    hint: 'Every signature that was made with your account, from the signer’s own log, including signatures that no application showed you.',
    check:
      'To verify a signature, save its proof to a file. Run chatelaine verify-log with --proof and the file, and with --key and the signer’s key. Use the key that you noted earlier from /.well-known/chatelaine-signing-log.',
    raised: 'fee bump',
    cancelled: 'cancelled: uses the nonce, does nothing else',
    sponsored: 'a sponsor pays the fee',
    together: 'all or nothing',
    delegated: (code: string) => `Your account runs the code at ${code}`,
    link: 'Every signature, with its proof',
    nonce: (nonce: number) => `nonce ${nonce}`,
    proof: (record: number) => `Proof: record ${record}`,
    paid: (to: string) => `Sent to ${to}`,
    called: (name: string, to: string) => `${name} of ${to}`,
    quoted: (name: string, text: string) => `${name}: “${text}”`,
    messages: {
      login: 'Sign-in to an application',
      text: 'Signed text',
      payment: 'Signed payment',
      allowance: 'Signed allowance to take tokens',
      order: 'Signed order',
      vote: 'Signed vote',
      power: 'Signed permission to act for the account',
      other: 'Signed data of an unknown kind',
      opaque: 'Signed bytes that are not text',
    },
  },
  de: {
    title: 'Alles, was für Sie unterschrieben wurde',
    hint: 'Jede Unterschrift mit Ihrem Konto, aus dem eigenen Protokoll des Signaturdienstes: auch solche, die Ihnen keine Anwendung gezeigt hat.',
    check:
      'Um eine Unterschrift zu prüfen, speichern Sie ihren Nachweis in einer Datei. Rufen Sie chatelaine verify-log mit --proof und der Datei sowie mit --key und dem Schlüssel des Signaturdienstes auf. Verwenden Sie den Schlüssel, den Sie sich früher von /.well-known/chatelaine-signing-log notiert haben.',
    raised: 'erhöhte Gebühr',
    cancelled: 'abgebrochen: verbraucht die Nonce, sonst nichts',
    sponsored: 'ein Sponsor zahlt die Gebühr',
    together: 'alles oder nichts',
    delegated: (code: string) => `Ihr Konto führt den Code bei ${code} aus`,
    link: 'Jede Unterschrift, mit Nachweis',
    nonce: (nonce: number) => `Nonce ${nonce}`,
    proof: (record: number) => `Nachweis: Eintrag ${record}`,
    paid: (to: string) => `Gesendet an ${to}`,
    called: (name: string, to: string) => `${name} von ${to}`,
    quoted: (name: string, text: string) => `${name}: „${text}“`,
    messages: {
      login: 'Anmeldung bei einer Anwendung',
      text: 'Unterschriebener Text',
      payment: 'Unterschriebene Zahlung',
      allowance: 'Unterschriebene Erlaubnis, Token zu nehmen',
      order: 'Unterschriebener Auftrag',
      vote: 'Unterschriebene Stimme',
      power: 'Unterschriebene Vollmacht für das Konto',
      other: 'Unterschriebene Daten unbekannter Art',
      opaque: 'Unterschriebene Bytes, die kein Text sind',
    },
  },
  fr: {
    title: 'Tout ce qui a été signé pour vous',
    hint: 'Chaque signature faite avec votre compte, d’après le journal du service de signature\u202f: même celles qu’aucune application ne vous a montrées.',
    check:
      'Pour vérifier une signature, enregistrez sa preuve dans un fichier. Lancez chatelaine verify-log avec --proof et ce fichier, et avec --key et la clé du service de signature. Utilisez la clé que vous avez notée auparavant depuis /.well-known/chatelaine-signing-log.',
    raised: 'frais augmentés',
    cancelled: 'annulée\u202f: utilise le nonce, rien d’autre',
    sponsored: 'un sponsor paie les frais',
    together: 'tout ou rien',
    delegated: (code: string) => `Votre compte exécute le code de ${code}`,
    link: 'Chaque signature, avec sa preuve',
    nonce: (nonce: number) => `nonce ${nonce}`,
    proof: (record: number) => `Preuve\u202f: enregistrement ${record}`,
    paid: (to: string) => `Envoyé à ${to}`,
    called: (name: string, to: string) => `${name} de ${to}`,
    quoted: (name: string, text: string) => `${name}\u202f: «\u202f${text}\u202f»`,
    messages: {
      login: 'Connexion à une application',
      text: 'Texte signé',
      payment: 'Paiement signé',
      allowance: 'Autorisation signée de prendre des jetons',
      order: 'Ordre signé',
      vote: 'Vote signé',
      power: 'Pouvoir signé d’agir pour le compte',
      other: 'Données signées de nature inconnue',
      opaque: 'Octets signés qui ne sont pas du texte',
    },
  },
  es: {
    title: 'Todo lo firmado en tu nombre',
    hint: 'Cada firma hecha con tu cuenta, según el registro propio del servicio de firma: también las que ninguna aplicación te mostró.',
    check:
      'Para comprobar una firma, guarda su prueba en un archivo. Ejecuta chatelaine verify-log con --proof y ese archivo, y con --key y la clave del servicio de firma. Usa la clave que anotaste antes de /.well-known/chatelaine-signing-log.',
    raised: 'comisión aumentada',
    cancelled: 'cancelada: usa el nonce y nada más',
    sponsored: 'un patrocinador paga la comisión',
    together: 'todo o nada',
    delegated: (code: string) => `Tu cuenta ejecuta el código de ${code}`,
    link: 'Cada firma, con su prueba',
    nonce: (nonce: number) => `nonce ${nonce}`,
    proof: (record: number) => `Prueba: registro ${record}`,
    paid: (to: string) => `Enviado a ${to}`,
    called: (name: string, to: string) => `${name} de ${to}`,
    quoted: (name: string, text: string) => `${name}: «${text}»`,
    messages: {
      login: 'Inicio de sesión en una aplicación',
      text: 'Texto firmado',
      payment: 'Pago firmado',
      allowance: 'Permiso firmado para tomar tokens',
      order: 'Orden firmada',
      vote: 'Voto firmado',
      power: 'Poder firmado para actuar por la cuenta',
      other: 'Datos firmados de tipo desconocido',
      opaque: 'Bytes firmados que no son texto',
    },
  },
  ja: {
    title: 'あなたのために行われたすべての署名',
    hint: 'あなたのアカウントで行われたすべての署名です。署名サービス自身の記録に基づき、どのアプリケーションも表示しなかった署名も含みます。',
    check:
      '署名を検証するには、証明をファイルに保存し、chatelaine verify-log を --proof（そのファイル）と --key（署名サービスの鍵）を付けて実行してください。鍵は、以前 /.well-known/chatelaine-signing-log から控えたものを使ってください。',
    raised: '手数料の引き上げ',
    cancelled: '取り消し: ノンスを使うだけです',
    sponsored: '手数料はスポンサーが負担',
    together: 'すべて実行されるか、何も実行されないか',
    delegated: (code: string) => `あなたのアカウントが ${code} のコードを実行`,
    link: 'すべての署名とその証明',
    nonce: (nonce: number) => `ノンス ${nonce}`,
    proof: (record: number) => `証明: 記録 ${record}`,
    paid: (to: string) => `${to} へ送信`,
    called: (name: string, to: string) => `${to} の ${name}`,
    quoted: (name: string, text: string) => `${name}：「${text}」`,
    messages: {
      login: 'アプリケーションへのサインイン',
      text: '署名されたテキスト',
      payment: '署名された支払い',
      allowance: '署名されたトークン引き出しの許可',
      order: '署名された注文',
      vote: '署名された投票',
      power: 'アカウントを代行する権限への署名',
      other: '種類が不明な署名済みデータ',
      opaque: 'テキストではない署名済みバイト列',
    },
  },
}
