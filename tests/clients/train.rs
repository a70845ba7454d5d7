//! The client of train.c in Rust, with its standard library alone: `train LIBRARY PROGRAM DATA EXECUTABLE`.
//!
//! Compiles a training step, trains 100 steps with donated parameters, writes the executable, loads it again and trains
//! another time from the same start, with the same losses.
use std::ffi::{c_void, CStr, CString};
use std::mem::{size_of, zeroed};
use std::os::raw::{c_char, c_int};
use std::ptr::{null, null_mut};

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}
const RTLD_NOW: c_int = 2;

type Handle = *mut c_void; // of an error, a client, a device, a buffer, an executable or an event
type Function = unsafe extern "C" fn(*mut c_void) -> Handle;

/// Numbers of functions in the table.
mod function {
    pub const ERROR_DESTROY: usize = 0;
    pub const ERROR_MESSAGE: usize = 1;
    pub const ERROR_GET_CODE: usize = 2;
    pub const EVENT_DESTROY: usize = 5;
    pub const EVENT_AWAIT: usize = 8;
    pub const CLIENT_CREATE: usize = 10;
    pub const CLIENT_DESTROY: usize = 11;
    pub const CLIENT_PLATFORM_NAME: usize = 12;
    pub const CLIENT_ADDRESSABLE_DEVICES: usize = 16;
    pub const CLIENT_COMPILE: usize = 20;
    pub const CLIENT_BUFFER_FROM_HOST_BUFFER: usize = 22;
    pub const EXECUTABLE_DESTROY: usize = 40;
    pub const EXECUTABLE_SERIALIZE: usize = 49;
    pub const LOADED_EXECUTABLE_DESTROY: usize = 50;
    pub const LOADED_EXECUTABLE_GET_EXECUTABLE: usize = 51;
    pub const LOADED_EXECUTABLE_EXECUTE: usize = 55;
    pub const EXECUTABLE_DESERIALIZE_AND_LOAD: usize = 56;
    pub const BUFFER_DESTROY: usize = 58;
    pub const BUFFER_IS_DELETED: usize = 68;
    pub const BUFFER_TO_HOST_BUFFER: usize = 70;
}

/// Structs that begin with their size and a list of extensions.
macro_rules! structs {
    ($($name:ident { $($field:ident: $type:ty),* })*) => {
        $(#[repr(C)] struct $name { struct_size: usize, extensions: *const c_void, $($field: $type),* })*
    };
}
structs! {
    Version { major: c_int, minor: c_int }
    OneHandle { handle: Handle, result: Handle }
    TextOf { handle: Handle, text: *const c_char, size: usize }
    CodeOf { handle: Handle, code: c_int }
    FlagOf { handle: Handle, flag: bool }
    ClientCreate {
        options: *const c_void, num_options: usize, get: *const c_void, get_argument: *const c_void,
        put: *const c_void, put_argument: *const c_void, client: Handle, try_get: *const c_void,
        try_get_argument: *const c_void
    }
    Devices { client: Handle, devices: *const Handle, count: usize }
    Program { code: *const c_char, code_size: usize, format: *const c_char, format_size: usize }
    ClientCompile {
        client: Handle, program: *const Program, options: *const c_char, options_size: usize, executable: Handle
    }
    BufferFromHost {
        client: Handle, data: *const u8, element: c_int, dims: *const i64, num_dims: usize, strides: *const i64,
        num_strides: usize, semantics: c_int, device: Handle, memory: Handle, layout: *const c_void, done: Handle,
        buffer: Handle
    }
    ToHost { buffer: Handle, layout: *const c_void, data: *mut u8, size: usize, event: Handle }
    ExecuteOptions {
        send: *const c_void, receive: *const c_void, num_send: usize, num_receive: usize, launch: c_int,
        not_donated: *const i64, num_not_donated: usize, context: *const c_void, location: *const c_char,
        num_tasks: usize, tasks: *const c_int, incarnations: *const i64, slices: *const c_void, major: bool,
        callbacks: *const c_void, num_callbacks: usize
    }
    Execute {
        executable: Handle, options: *const ExecuteOptions, arguments: *const *const Handle, num_devices: usize,
        num_arguments: usize, results: *const *mut Handle, events: *mut Handle, device: Handle
    }
    Serialize {
        executable: Handle, bytes: *const u8, size: usize, owner: Handle,
        deleter: Option<unsafe extern "C" fn(Handle)>
    }
    Load {
        client: Handle, bytes: *const u8, size: usize, executable: Handle, options: *const c_char,
        options_size: usize, load_options: *const c_void
    }
}

#[repr(C)]
struct Api {
    struct_size: usize,
    extensions: *const c_void,
    version: Version,
    functions: [Function; 129],
}

/// A struct of zeros that knows its size.
fn new<T>() -> T {
    unsafe {
        let mut value: T = zeroed();
        *(&mut value as *mut T as *mut usize) = size_of::<T>();
        value
    }
}

type Result<T> = std::result::Result<T, String>;

#[derive(Clone, Copy)]
struct Plugin {
    api: *const Api,
    client: Handle,
}

/// Element type, dimensions. Types: 4 is s32, 11 is f32.
const ARGUMENTS: [(c_int, &[i64]); 6] =
    [(11, &[784, 256]), (11, &[256]), (11, &[256, 10]), (11, &[10]), (11, &[128, 784]), (4, &[128])];
const PARAMETERS: usize = 4;

impl Plugin {
    fn open(path: &str) -> Result<Plugin> {
        let (path, name) = (CString::new(path).unwrap(), CString::new("GetPjrtApi").unwrap());
        unsafe {
            let library = dlopen(path.as_ptr(), RTLD_NOW);
            if library.is_null() {
                return Err(CStr::from_ptr(dlerror()).to_string_lossy().into_owned());
            }
            let get: extern "C" fn() -> *const Api = std::mem::transmute(dlsym(library, name.as_ptr()));
            let mut plugin = Plugin { api: get(), client: null_mut() };
            let mut create: ClientCreate = new();
            plugin.call(function::CLIENT_CREATE, &mut create)?;
            plugin.client = create.client;
            Ok(plugin)
        }
    }

    /// An error becomes "CODE: MESSAGE".
    fn call<T>(&self, number: usize, args: &mut T) -> Result<()> {
        unsafe {
            let functions = &(*self.api).functions;
            let error = functions[number](args as *mut T as *mut c_void);
            if error.is_null() {
                return Ok(());
            }
            let mut code: CodeOf = new();
            code.handle = error;
            functions[function::ERROR_GET_CODE](&mut code as *mut CodeOf as *mut c_void);
            let mut message: TextOf = new();
            message.handle = error;
            functions[function::ERROR_MESSAGE](&mut message as *mut TextOf as *mut c_void);
            let text = format!("{}: {}", code.code, text_in(&message));
            let mut destroy: OneHandle = new();
            destroy.handle = error;
            functions[function::ERROR_DESTROY](&mut destroy as *mut OneHandle as *mut c_void);
            Err(text)
        }
    }

    /// Calls a function of one object that returns at most another one.
    fn on(&self, number: usize, handle: Handle) -> Result<Handle> {
        let mut args: OneHandle = new();
        args.handle = handle;
        self.call(number, &mut args)?;
        Ok(args.result)
    }

    fn wait(&self, event: Handle) -> Result<()> {
        self.on(function::EVENT_AWAIT, event)?;
        self.on(function::EVENT_DESTROY, event).map(|_| ())
    }

    fn compile(&self, code: &[u8], format: &str) -> Result<Handle> {
        let mut program: Program = new();
        program.code = code.as_ptr() as *const c_char;
        program.code_size = code.len();
        program.format = format.as_ptr() as *const c_char;
        program.format_size = format.len();
        let mut args: ClientCompile = new();
        args.client = self.client;
        args.program = &program;
        self.call(function::CLIENT_COMPILE, &mut args)?;
        Ok(args.executable)
    }

    fn load(&self, bytes: &[u8]) -> Result<Handle> {
        let mut args: Load = new();
        args.client = self.client;
        args.bytes = bytes.as_ptr();
        args.size = bytes.len();
        self.call(function::EXECUTABLE_DESERIALIZE_AND_LOAD, &mut args)?;
        Ok(args.executable)
    }

    fn serialize(&self, loaded: Handle) -> Result<Vec<u8>> {
        let mut args: Serialize = new();
        args.executable = self.on(function::LOADED_EXECUTABLE_GET_EXECUTABLE, loaded)?;
        self.call(function::EXECUTABLE_SERIALIZE, &mut args)?;
        let bytes = unsafe { std::slice::from_raw_parts(args.bytes, args.size) }.to_vec();
        unsafe { args.deleter.unwrap()(args.owner) };
        self.on(function::EXECUTABLE_DESTROY, args.executable)?;
        Ok(bytes)
    }

    fn to_device(&self, data: &[u8], element: c_int, dims: &[i64], device: Handle) -> Result<Handle> {
        let mut args: BufferFromHost = new();
        args.client = self.client;
        args.data = data.as_ptr();
        args.element = element;
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.device = device;
        self.call(function::CLIENT_BUFFER_FROM_HOST_BUFFER, &mut args)?;
        self.wait(args.done)?;
        Ok(args.buffer)
    }

    fn scalar(&self, buffer: Handle) -> Result<f32> {
        let mut bytes = [0u8; 4];
        let mut args: ToHost = new();
        args.buffer = buffer;
        args.data = bytes.as_mut_ptr();
        args.size = bytes.len();
        self.call(function::BUFFER_TO_HOST_BUFFER, &mut args)?;
        self.wait(args.event)?;
        Ok(f32::from_le_bytes(bytes))
    }

    fn execute(&self, executable: Handle, arguments: &[Handle]) -> Result<Vec<Handle>> {
        let mut results = vec![null_mut(); PARAMETERS + 1];
        let options: ExecuteOptions = new();
        let (argument_lists, result_lists) = ([arguments.as_ptr()], [results.as_mut_ptr()]);
        let mut args: Execute = new();
        args.executable = executable;
        args.options = &options;
        args.arguments = argument_lists.as_ptr();
        args.num_devices = 1;
        args.num_arguments = arguments.len();
        args.results = result_lists.as_ptr();
        self.call(function::LOADED_EXECUTABLE_EXECUTE, &mut args)?;
        Ok(results)
    }

    /// 100 steps from the arguments in `data`; prints every tenth loss.
    fn train(&self, executable: Handle, data: &[u8], device: Handle) -> Result<()> {
        let (mut arguments, mut rest) = (Vec::new(), data);
        for (element, dims) in ARGUMENTS.iter() {
            let (own, others) = rest.split_at(dims.iter().product::<i64>() as usize * 4);
            arguments.push(self.to_device(own, *element, dims, device)?);
            rest = others;
        }
        for step in 1..=100 {
            let results = self.execute(executable, &arguments)?;
            for (argument, result) in arguments.iter_mut().zip(&results[..PARAMETERS]) {
                let mut deleted: FlagOf = new();
                deleted.handle = *argument;
                self.call(function::BUFFER_IS_DELETED, &mut deleted)?;
                assert!(deleted.flag, "an argument was not donated");
                self.on(function::BUFFER_DESTROY, *argument)?;
                *argument = *result;
            }
            let loss = self.scalar(results[PARAMETERS])?;
            self.on(function::BUFFER_DESTROY, results[PARAMETERS])?;
            if step % 10 == 0 {
                println!("loss: {} {:.9}", step, loss);
            }
        }
        for argument in arguments {
            self.on(function::BUFFER_DESTROY, argument)?;
        }
        Ok(())
    }
}

fn text_in(text: &TextOf) -> String {
    let bytes = unsafe { std::slice::from_raw_parts(text.text as *const u8, text.size) };
    String::from_utf8_lossy(bytes).into_owned()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let plugin = Plugin::open(&arguments[1])?;
    let mut platform: TextOf = new();
    platform.handle = plugin.client;
    plugin.call(function::CLIENT_PLATFORM_NAME, &mut platform)?;
    let mut devices: Devices = new();
    devices.client = plugin.client;
    devices.devices = null();
    plugin.call(function::CLIENT_ADDRESSABLE_DEVICES, &mut devices)?;
    println!("platform: {} {}", text_in(&platform), devices.count);
    let device = unsafe { *devices.devices };

    println!("not a program: {}", plugin.compile(b"what?", "mlir").unwrap_err());
    let program = std::fs::read(&arguments[2]).map_err(|e| e.to_string())?;
    let data = std::fs::read(&arguments[3]).map_err(|e| e.to_string())?;
    let compiled = plugin.compile(&program, "mlir")?;
    plugin.train(compiled, &data, device)?;
    let bytes = plugin.serialize(compiled)?;
    std::fs::write(&arguments[4], &bytes).map_err(|e| e.to_string())?;
    plugin.on(function::LOADED_EXECUTABLE_DESTROY, compiled)?;

    let loaded = plugin.load(&std::fs::read(&arguments[4]).map_err(|e| e.to_string())?)?;
    plugin.train(loaded, &data, device)?;
    plugin.on(function::LOADED_EXECUTABLE_DESTROY, loaded)?;
    plugin.on(function::CLIENT_DESTROY, plugin.client)?;
    println!("done");
    Ok(())
}
